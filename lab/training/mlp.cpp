// SPDX-License-Identifier: Apache-2.0
#include "training/mlp.h"

#include <cmath>
#include <vector>

#include "noise/draws.h"
#include "require.h"

namespace spectralclip::lab {
namespace {

// x: samples x inputs, y: samples.
struct Samples {
  at::Tensor x, y;
  [[nodiscard]] std::int64_t count() const { return x.size(0); }
  [[nodiscard]] Samples rows(std::int64_t begin, std::int64_t end) const {
    return {x.slice(0, begin, end), y.slice(0, begin, end)};
  }
  [[nodiscard]] Samples at_rows(const at::Tensor& order) const {
    return {x.index_select(0, order), y.index_select(0, order)};
  }
};

Samples make_samples(const Config& config) {
  const MlpConfig& mlp = config.mlp;
  const at::Tensor x = at::empty({mlp.samples, mlp.inputs});
  Draws(config.seed, "mlp.x").fill_normal(std::span(x.data_ptr<float>(), static_cast<std::size_t>(x.numel())));
  return {x, x.slice(1, 0, mlp.factors).prod(1)};
}

// Uniform within 1 / sqrt(fan in), torch's own start for a linear layer.
at::Tensor make_weight(const Config& config, std::int64_t layer, std::int64_t rows, std::int64_t cols) {
  at::Tensor weight = at::empty({rows, cols});
  Draws draws(config.seed, "mlp.weight", 0, layer);
  const double bound = 1.0 / std::sqrt(static_cast<double>(cols));
  float* entries = weight.data_ptr<float>();
  for (std::int64_t i = 0; i < weight.numel(); ++i)
    entries[i] = static_cast<float>(bound * (2.0 * draws.uniform() - 1.0));
  return weight.requires_grad_(true);
}

class Mlp final : public TrainingTask {
 public:
  explicit Mlp(const Config& config) : config_(config) {
    const MlpConfig& mlp = config.mlp;
    const Samples all = make_samples(config);
    const auto kept =
        static_cast<std::int64_t>(std::llround((1.0 - mlp.validation) * static_cast<double>(mlp.samples)));
    SPECTRALCLIP_REQUIRE(kept >= 1, "mlp.validation = ", mlp.validation, " leaves no sample of ", mlp.samples,
                         " to train on");
    train_ = all.rows(0, kept);
    validation_ = all.rows(kept, mlp.samples);
    for (std::int64_t layer = 0; layer <= mlp.hidden; ++layer)
      weights_.push_back(
          make_weight(config, layer, layer < mlp.hidden ? mlp.width : 1, layer > 0 ? mlp.width : mlp.inputs));
  }

  [[nodiscard]] spectralclip::torch::NamedTensors parameters() const override {
    spectralclip::torch::NamedTensors named;
    for (std::size_t i = 0; i < weights_.size(); ++i)
      named.emplace_back("network.W_" + std::to_string(i) + ".weight", weights_[i]);
    return named;
  }

  at::Tensor loss(std::int64_t step) override {
    const std::int64_t batch = std::min(config_.train.batch, train_.count());
    const std::int64_t batches = (train_.count() + batch - 1) / batch;
    enter_epoch((step - 1) / batches);
    const std::int64_t begin = (step - 1) % batches * batch;
    return loss_of(epoch_.rows(begin, std::min(begin + batch, train_.count())));
  }

  nlohmann::ordered_json evaluate(bool with_training_set) override {
    const at::NoGradGuard no_grad;
    nlohmann::ordered_json values = nlohmann::ordered_json::object();
    if (with_training_set) values["train_loss"] = loss_of(train_).item<double>();
    if (validation_.count() > 0) values["val_loss"] = loss_of(validation_).item<double>();
    return values;
  }

  [[nodiscard]] nlohmann::ordered_json facts() const override {
    return {{"baseline_loss", train_.y.var(/*unbiased=*/false).item<double>()}};
  }

 private:
  [[nodiscard]] at::Tensor loss_of(const Samples& samples) const {
    at::Tensor h = samples.x;
    for (std::size_t i = 0; i + 1 < weights_.size(); ++i) h = at::relu(at::linear(h, weights_[i]));
    return at::mse_loss(at::linear(h, weights_.back()).squeeze(1), samples.y);
  }

  // The training set in the epoch's order, so that a batch is a window of it: one copy an epoch.
  void enter_epoch(std::int64_t epoch) {
    if (config_.mlp.order == "repeat") epoch = 0;
    if (epoch == epoch_number_) return;
    std::vector<std::int64_t> order(static_cast<std::size_t>(train_.count()));
    Draws(config_.seed, "mlp.order", epoch).fill_permutation(order);
    epoch_ = train_.at_rows(at::from_blob(order.data(), {train_.count()}, at::kLong));
    epoch_number_ = epoch;
  }

  Config config_;
  Samples train_, validation_, epoch_;
  std::int64_t epoch_number_ = -1;
  std::vector<at::Tensor> weights_;
};

}  // namespace

std::unique_ptr<TrainingTask> make_mlp(const Config& config) { return std::make_unique<Mlp>(config); }

}  // namespace spectralclip::lab
