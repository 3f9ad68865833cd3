// SPDX-License-Identifier: Apache-2.0
// The list of data sets. Sums without a remark were taken from files that came from the home named with them; the sums
// of CIFAR-10's archive are those of its page (MD5 c32a1d4ab5d03f1284b67883e8d87530) and of TensorFlow Datasets' list.
#include "data/locate.h"
#include "require.h"
#include "spectralclip/settings.h"

namespace spectralclip::lab::data {

const std::vector<DataSet>& data_sets() {
  static const std::vector<DataSet> sets = {
      {"shakespeare",
       "tiny Shakespeare, 1,115,394 characters, 65 symbols",
       "https://github.com/karpathy/char-rnn",
       "mkdir -p shakespeare && curl -fL -o shakespeare/input.txt "
       "https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/input.txt",
       {"shakespeare/input.txt", "shakespeare_char/input.txt", "tinyshakespeare/input.txt"},
       {},
       {{"input.txt", 1115394, "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed",
         "the text of char-rnn and nanoGPT", true}}},
      {"cifar10",
       "CIFAR-10, 60,000 images of 32 x 32 in 10 classes, binary batches, 162 MB packed",
       "https://www.cs.toronto.edu/~kriz/cifar.html",
       "curl -fLO https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz && "
       "echo 'c32a1d4ab5d03f1284b67883e8d87530  cifar-10-binary.tar.gz' | md5sum -c && tar xzf cifar-10-binary.tar.gz",
       {"cifar-10-batches-bin/*_batch*.bin", "cifar10/cifar-10-batches-bin/*_batch*.bin", "cifar10/*_batch*.bin"},
       {"cifar-10-binary.tar.gz", "cifar10/cifar-10-binary.tar.gz", "cifar10/cifar10-jpeg.tar.xz"},
       {{"cifar-10-binary.tar.gz", 170052171, "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
         "the official archive", true},
        {"cifar10-jpeg.tar.xz", 18643788, "ef3a7b3d037b49960f2de94ebf2d200cd84ba641c95b78f521ed2adf8655f90c",
         "a re-encoded copy: every image went through JPEG, labels and order are the official ones", true}}},
      {"wikitext2",
       "WikiText-2 as GPT-2 tokens (shards of llm.c) or as text",
       "https://huggingface.co/datasets/Salesforce/wikitext",
       "curl -fLO https://huggingface.co/datasets/ggml-org/ci/resolve/main/wikitext-2-raw-v1.zip && "
       "unzip wikitext-2-raw-v1.zip && mkdir -p wikitext2 && for part in train valid test; do "
       "python -m spectralclip.gpt2_tokens wikitext-2-raw/wiki.$part.raw wikitext2/$part.bin; done",
       {"wikitext2/*.bin", "wikitext2/*.txt", "wikitext-2-raw/wiki.*.raw"},
       {"wikitext-2-raw-v1.zip"},
       {{"wikitext-2-raw-v1.zip", 4721645, "ef7edb566e3e2b2d31b29c1fdb0c89a4cc683597484c3dc2517919c615435a11",
         "the raw texts", true},
        {"valid.txt", 1121681, "f0737ed31fc1329026e95cb8b98e19c2a182c39c240ab909dc31abf2f8af58e8",
         "the validation text"},
        {"test.txt", 1256449, "d790b833ef8cf03a90db7bf1271b7520b83c45ce07ba3c1a9699df81e239eca0", "the test text"},
        {"valid.bin", 518342, "5b543319af6742f5f6f75fffda7adfe9abcd800a18ab3303612b3931398354ba",
         "258,659 GPT-2 tokens of the validation text"},
        {"test.bin", 592778, "57cc1a9039139532372d79d30828a8d6b80b2fa3f7c2dccf53f0d5063823c1e2",
         "295,877 GPT-2 tokens of the test text"}}},
      {"fineweb",
       "FineWeb as GPT-2 tokens, shards of 100 million (200 MB each)",
       "https://huggingface.co/datasets/kjj0/fineweb10B-gpt2",
       "for shard in val_000000 train_000001; do curl -fL --create-dirs -o fineweb10B/fineweb_$shard.bin "
       "https://huggingface.co/datasets/kjj0/fineweb10B-gpt2/resolve/main/fineweb_$shard.bin; done",
       {"fineweb10B/*fineweb*_*.bin", "edu_fineweb10B/*fineweb*_*.bin", "fineweb*_*.bin"},
       {},
       {}},
      {"gpt2",
       "GPT-2 124M, 548 MB: Hugging Face's weights, or a model file of llm.c",
       "https://huggingface.co/openai-community/gpt2",
       "curl -fL --create-dirs -o gpt2/model.safetensors "
       "https://huggingface.co/openai-community/gpt2/resolve/main/model.safetensors",
       {"gpt2/model.safetensors", "gpt2/gpt2_124M*.bin", "gpt2_124M*.bin"},
       {},
       {}}};
  return sets;
}

const DataSet& data_set(std::string_view name) {
  std::vector<std::string> names;
  std::string list;
  for (const DataSet& set : data_sets()) {
    if (set.name == name) return set;
    names.push_back(set.name);
    list += (list.empty() ? "" : ", ") + set.name;
  }
  const std::string near = nearest_name(name, names);
  throw InvalidArgument(detail::concat("no data set is called \"", name, "\"",
                                       near.empty() ? "" : "; did you mean \"" + near + "\"?", " (known: ", list, ")"));
}

}  // namespace spectralclip::lab::data
