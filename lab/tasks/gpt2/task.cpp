// SPDX-License-Identifier: Apache-2.0
// The paper's pretraining experiment: GPT-2 on token shards, in llm.c's order of samples. Starts from random weights or
// from a file.
#include <algorithm>

#include "data/data_error.h"
#include "data/locate.h"
#include "data/shard_order.h"
#include "data/token_data.h"
#include "models/gpt_files.h"
#include "models/language_task.h"
#include "record/state.h"
#include "tasks/gpt2/keys.h"
#include "training/archive.h"

namespace spectralclip::lab {
namespace {

data::TokenData with_tokens(const std::vector<std::string>& files, const std::string& train,
                            const std::string& validation, std::int64_t vocabulary) {
  const auto folder_with = [&](const std::string& part) {
    for (const std::string& file : files)
      if (file.find(part) != std::string::npos && file.ends_with(".bin")) return file.substr(0, file.rfind('/'));
    data::throw_data_error("among ", files.size(), " files of the set (the first: ", files.front(), ") no shard has \"",
                           part, "\" in its name");
  };
  return data::open_shards(folder_with(train) + "/*" + train + "*.bin",
                           folder_with(validation) + "/*" + validation + "*.bin", vocabulary);
}

data::TokenData open_data(const Config& config) {
  const Gpt2Keys& keys = config.of<Gpt2Keys>();
  if (config.data.path != "found")
    return data::open_shards(config.data.path, keys.validation == "found" ? "" : keys.validation, keys.vocabulary);
  const auto files = data::locate(keys.set);
  // Where WikiText-2's training text is not there as tokens, its test text trains; the validation text validates.
  const bool has_train =
      std::any_of(files.begin(), files.end(), [](const auto& f) { return f.ends_with("train.bin"); });
  if (keys.set == "wikitext2") return with_tokens(files, has_train ? "train" : "test", "valid", keys.vocabulary);
  return with_tokens(files, "_train_", "_val_", keys.vocabulary);
}

GptShape shape_of(const Gpt2Keys& keys) {
  return {.vocabulary = keys.vocabulary,
          .context = keys.context,
          .layers = keys.layers,
          .heads = keys.heads,
          .width = keys.width,
          .dropout = keys.dropout};
}

class Gpt2 final : public LanguageTask {
 public:
  explicit Gpt2(const Config& config)
      : LanguageTask(config, open_data(config), shape_of(config.of<Gpt2Keys>()),
                     {config.of<Gpt2Keys>().eval_samples, config.of<Gpt2Keys>().final_samples}),
        order_(tokens().train, {.batch = config.train.batch,
                                .length = config.of<Gpt2Keys>().context,
                                .shuffle = config.of<Gpt2Keys>().order == "shuffled"}),
        is_random_(config.of<Gpt2Keys>().order == "random") {
    if (const std::string& init = config.of<Gpt2Keys>().init; init != "random") load_gpt(init, gpt());
  }

 protected:
  [[nodiscard]] TokenBatch batch(std::int64_t step, std::int64_t micro) override {
    if (is_random_) return LanguageTask::batch(step, micro);
    const data::ShardPlace place = order_.place((step - 1) * config().train.accumulation + micro);
    std::int64_t begin = place.token;
    for (std::int64_t shard = 0; shard < place.shard; ++shard) begin += std::ssize(tokens().train.shard(shard));
    std::vector<std::int64_t> places;
    for (std::int64_t row = 0; row < config().train.batch; ++row) places.push_back(begin + row * gpt().shape().context);
    return crops(tokens().train, places, true);
  }

 private:
  data::ShardOrder order_;
  bool is_random_;
};

void write_model(const Config& config, const StateReader& state, const std::string& path) {
  Gpt gpt(shape_of(config.of<Gpt2Keys>()), config.seed);
  read_weights(state, gpt);
  save_gpt(path, gpt);
}

}  // namespace

TaskInfo gpt2_task() {
  return {.name = "gpt2-fineweb",
          .help = "GPT-2 learns to predict token shards (the paper's Table 4)",
          .metrics = language_metrics(),
          .groups = {"train", "record", "data", "optimizer", "clip", "noise", "gpt2"},
          .make = &train<Gpt2>,
          .write_model = &write_model};
}

}  // namespace spectralclip::lab
