// SPDX-License-Identifier: Apache-2.0
// The paper's NanoGPT experiment: a character-level GPT learns tiny Shakespeare, or any text, nanoGPT folder or token
// shards that data.path names.
#include "data/locate.h"
#include "data/token_data.h"
#include "models/language_task.h"
#include "tasks/nanogpt/keys.h"

namespace spectralclip::lab {
namespace {

data::TokenData open_data(const Config& config) {
  if (config.data.path != "found") return data::open_tokens(config.data.path);
  return data::open_tokens(data::locate("shakespeare").front());
}

class Nanogpt final : public LanguageTask {
 public:
  explicit Nanogpt(const Config& config) : Nanogpt(config, open_data(config), config.of<NanogptKeys>()) {}

 private:
  Nanogpt(const Config& config, data::TokenData data, const NanogptKeys& keys)
      : LanguageTask(config, data, shape_of(keys, data.vocabulary_size), {keys.eval_samples, keys.final_samples}) {}

  static GptShape shape_of(const NanogptKeys& keys, std::int64_t vocabulary) {
    return {.vocabulary = vocabulary,
            .context = keys.context,
            .layers = keys.layers,
            .heads = keys.heads,
            .width = keys.width,
            .bias = keys.bias,
            .separate_qkv = keys.qkv == "separate",
            .tanh_gelu = false,
            .dropout = keys.dropout};
  }
};

void sample(const Config& config, const StateReader& state, const SampleOptions& options) {
  Nanogpt task(config);
  sample_characters(task, state, options);
}

}  // namespace

TaskInfo nanogpt_task() {
  return {.name = "nanogpt-shakespeare",
          .help = "a character-level GPT learns tiny Shakespeare (the paper's Table 3)",
          .metrics = language_metrics(),
          .groups = {"train", "record", "data", "optimizer", "clip", "noise", "nanogpt"},
          .make = &train<Nanogpt>,
          .sample = &sample};
}

}  // namespace spectralclip::lab
