// SPDX-License-Identifier: Apache-2.0
// What tasks that predict the next token share: crops of a row of tokens, losses over fixed windows, dirt, sampling.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/corruption.h"
#include "data/token_data.h"
#include "models/gpt.h"
#include "training/task.h"

namespace spectralclip::lab {

struct LanguageOptions {
  std::int64_t eval_samples = 200;    // windows of the validation tokens at each evaluation …
  std::int64_t final_samples = 2000;  // … and of both halves at the last one, evenly spaced
};

// inputs and targets, each B x T.
struct TokenBatch {
  at::Tensor inputs, targets;
};

class LanguageTask : public TrainingTask {
 public:
  LanguageTask(const Config& config, data::TokenData data, const GptShape& shape, const LanguageOptions& options);

  [[nodiscard]] ::torch::nn::Module& model() override { return *gpt_; }
  [[nodiscard]] std::vector<ParameterGroup> groups() override;
  // Spectral and soft clippers see the hidden matrices, as published; norms are taken over all parameters.
  [[nodiscard]] NamedTensors clipped() override;
  at::Tensor loss(std::int64_t step, std::int64_t micro) override;
  nlohmann::ordered_json evaluate(bool last) override;
  [[nodiscard]] nlohmann::ordered_json facts() const override;

  [[nodiscard]] Gpt& gpt() noexcept { return *gpt_; }
  [[nodiscard]] const data::TokenData& tokens() const noexcept { return data_; }
  [[nodiscard]] const at::Device& device() const noexcept { return device_; }

 protected:
  // Of pass `micro` of a step: crops at random places, by address.
  [[nodiscard]] virtual TokenBatch batch(std::int64_t step, std::int64_t micro);
  // One row of context + 1 tokens from `begin` on for each place; training rows are made dirty as data.corrupt says.
  [[nodiscard]] TokenBatch crops(const data::Tokens& tokens, const std::vector<std::int64_t>& places, bool dirty) const;
  [[nodiscard]] const Config& config() const noexcept { return config_; }

 private:
  [[nodiscard]] double mean_loss(const data::Tokens& tokens, std::int64_t samples);

  Config config_;
  LanguageOptions options_;
  at::Device device_;
  data::TokenData data_;
  data::Corruption dirt_;
  std::shared_ptr<Gpt> gpt_;
};

// Cross-entropy of predicting each token by its share among the training tokens: what a model without context can do.
[[nodiscard]] double unigram_loss(const data::TokenData& data);

// The metrics of a language model, in their order.
[[nodiscard]] std::vector<Metric> language_metrics();

// Text that the network goes on with, character by character (TaskInfo::sample). Throws InvalidArgument when the data
// have no characters.
void sample_characters(LanguageTask& task, const StateReader& state, const SampleOptions& options);

}  // namespace spectralclip::lab
