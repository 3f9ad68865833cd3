// SPDX-License-Identifier: Apache-2.0
#include "models/language_task.h"

#include <algorithm>
#include <cmath>

#include "noise/draws.h"
#include "require.h"
#include "training/archive.h"
#include "training/device.h"

namespace spectralclip::lab {
namespace {

void require_length(const char* which, const data::Tokens& tokens, const GptShape& shape, const std::string& source) {
  SPECTRALCLIP_REQUIRE(tokens.size() > shape.context, source, ": ", tokens.size(), " ", which,
                       " tokens, but a context of ", shape.context, " needs ", shape.context + 1);
}

}  // namespace

LanguageTask::LanguageTask(const Config& config, data::TokenData data, const GptShape& shape,
                           const LanguageOptions& options)
    : config_(config),
      options_(options),
      device_(device_of(config)),
      data_(std::move(data)),
      dirt_{config.data.corrupt, config.data.corrupt_burst, config.seed},
      gpt_(std::make_shared<Gpt>(shape, config.seed)) {
  require_length("training", data_.train, shape, data_.source);
  require_length("validation", data_.validation, shape, data_.source);
  data::validate(dirt_);
  gpt_->to(device_);
}

std::vector<ParameterGroup> LanguageTask::groups() {
  return standard_groups(trained_parameters(*gpt_), config_.optimizer);
}

NamedTensors LanguageTask::clipped() {
  NamedTensors parameters = trained_parameters(*gpt_);
  const std::string& kind = config_.clip.kind;
  if (kind == "global_norm" || kind == "layer_norm" || kind == "coordinate" || kind == "agc") return parameters;
  std::erase_if(parameters, [](const auto& one) { return !is_hidden_matrix(one.first, one.second); });
  return parameters;
}

TokenBatch LanguageTask::crops(const data::Tokens& tokens, const std::vector<std::int64_t>& places, bool dirty) const {
  const std::int64_t context = gpt_->shape().context, rows = static_cast<std::int64_t>(places.size());
  const at::Tensor all = at::empty({rows, context + 1}, at::kLong);
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t place = places[static_cast<std::size_t>(row)];
    const std::span<std::int64_t> out(all.data_ptr<std::int64_t>() + row * (context + 1),
                                      static_cast<std::size_t>(context + 1));
    tokens.copy(place, out);
    if (dirty && dirt_.share > 0) (void)data::corrupt(dirt_, place, out, data_.vocabulary_size);
  }
  const at::Tensor there = all.to(device_);
  return {there.slice(1, 0, context), there.slice(1, 1, context + 1)};
}

TokenBatch LanguageTask::batch(std::int64_t step, std::int64_t micro) {
  Draws draws(config_.seed, "language.batch", step, micro);
  std::vector<std::int64_t> places(static_cast<std::size_t>(config_.train.batch));
  for (std::int64_t& place : places) place = draws.below(data_.train.size() - gpt_->shape().context);
  return crops(data_.train, places, true);
}

at::Tensor LanguageTask::loss(std::int64_t step, std::int64_t micro) {
  const TokenBatch one = batch(step, micro);
  return gpt_->loss(one.inputs, one.targets);
}

double LanguageTask::mean_loss(const data::Tokens& tokens, std::int64_t samples) {
  const std::int64_t context = gpt_->shape().context, windows = (tokens.size() - 1) / context;
  const std::int64_t count = std::min(samples, windows);
  double sum = 0;
  std::vector<std::int64_t> places;
  for (std::int64_t i = 0; i < count; ++i) {
    places.push_back(i * windows / count * context);
    if (std::ssize(places) < config_.train.batch && i + 1 < count) continue;
    const TokenBatch one = crops(tokens, places, false);
    sum += gpt_->loss(one.inputs, one.targets).item<double>() * static_cast<double>(places.size());
    places.clear();
  }
  return sum / static_cast<double>(count);
}

nlohmann::ordered_json LanguageTask::evaluate(bool last) {
  const std::int64_t samples = last ? options_.final_samples : options_.eval_samples;
  nlohmann::ordered_json values{{"val_loss", mean_loss(data_.validation, samples)}};
  if (last) values["train_loss"] = mean_loss(data_.train, samples);
  return values;
}

nlohmann::ordered_json LanguageTask::facts() const {
  return {{"baseline_loss", unigram_loss(data_)}, {"parameters", gpt_->parameter_count()}};
}

double unigram_loss(const data::TokenData& data) {
  std::vector<double> counts(static_cast<std::size_t>(data.vocabulary_size), 1.0);  // none is impossible
  for (std::int64_t s = 0; s < data.train.shards(); ++s)
    for (const std::uint16_t token : data.train.shard(s)) ++counts[token];
  const double total = static_cast<double>(data.train.size() + data.vocabulary_size);
  double sum = 0;
  for (std::int64_t s = 0; s < data.validation.shards(); ++s)
    for (const std::uint16_t token : data.validation.shard(s)) sum -= std::log(counts[token] / total);
  return sum / static_cast<double>(data.validation.size());
}

std::vector<Metric> language_metrics() {
  return {{.name = "val_loss", .label = "validation loss", .unit = "nats a token"},
          {.name = "train_loss", .label = "training loss", .unit = "nats a token"}};
}

void sample_characters(LanguageTask& task, const StateReader& state, const SampleOptions& options) {
  const auto& characters = task.tokens().characters;
  SPECTRALCLIP_REQUIRE(characters.has_value(), task.tokens().source, ": its tokens are no characters");
  read_weights(state, task.model());
  const at::NoGradGuard no_grad;
  task.model().eval();
  std::vector<std::int64_t> tokens;
  for (const std::uint16_t token : characters->encode(options.prompt.empty() ? "\n" : options.prompt))
    tokens.push_back(token);
  for (std::int64_t i = 0; i < options.tokens; ++i) {
    const auto kept = std::min<std::int64_t>(std::ssize(tokens), task.gpt().shape().context);
    const at::Tensor row = at::tensor(std::vector<std::int64_t>(tokens.end() - kept, tokens.end())).unsqueeze(0);
    at::Tensor logits = task.gpt().next_logits(row.to(task.device())).squeeze(0).to(at::kCPU, at::kDouble);
    if (options.top_k > 0 && options.top_k < logits.size(0))
      logits.masked_fill_(logits < std::get<0>(logits.topk(options.top_k)).min(), -HUGE_VAL);
    std::int64_t next = logits.argmax().item<std::int64_t>();
    if (options.temperature > 0) {  // the inverse of the distribution, at a uniform number by address
      const at::Tensor sums = at::softmax(logits / options.temperature, 0).cumsum(0);
      const double u = Draws(options.seed, "sample", i).uniform() * sums[-1].item<double>();
      next = std::min<std::int64_t>((sums < u).sum().item<std::int64_t>(), logits.size(0) - 1);
    }
    tokens.push_back(next);
    options.write(characters->decode(std::span<const std::int64_t>(&next, 1)));
  }
}

}  // namespace spectralclip::lab
