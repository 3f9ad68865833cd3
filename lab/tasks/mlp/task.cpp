// SPDX-License-Identifier: Apache-2.0
// The paper's controlled experiment: a perceptron without biases, inputs-width-…-width-1 with ReLU, learns the product
// of the first coordinates of a Gaussian x from mean squared errors.
#include <cmath>
#include <vector>

#include "noise/draws.h"
#include "require.h"
#include "tasks/mlp/keys.h"
#include "training/device.h"
#include "training/task.h"

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
  const MlpKeys& mlp = config.of<MlpKeys>();
  const at::Tensor x = at::empty({mlp.samples, mlp.inputs});
  Draws(config.seed, "mlp.x").fill_normal(std::span(x.data_ptr<float>(), static_cast<std::size_t>(x.numel())));
  const at::Device device = device_of(config);
  return {x.to(device), x.slice(1, 0, mlp.factors).prod(1).to(device)};
}

// Uniform within 1 / sqrt(fan in), torch's own start for a linear layer.
at::Tensor make_weight(const Config& config, std::int64_t layer, std::int64_t rows, std::int64_t cols) {
  at::Tensor weight = at::empty({rows, cols});
  Draws draws(config.seed, "mlp.weight", 0, layer);
  const double bound = 1.0 / std::sqrt(static_cast<double>(cols));
  float* entries = weight.data_ptr<float>();
  for (std::int64_t i = 0; i < weight.numel(); ++i)
    entries[i] = static_cast<float>(bound * (2.0 * draws.uniform() - 1.0));
  return weight.to(device_of(config));
}

struct Perceptron : ::torch::nn::Module {
  explicit Perceptron(const Config& config) {
    const MlpKeys& mlp = config.of<MlpKeys>();
    for (std::int64_t layer = 0; layer <= mlp.hidden; ++layer) {
      auto part = std::make_shared<::torch::nn::Module>();
      weights.push_back(part->register_parameter(
          "weight",
          make_weight(config, layer, layer < mlp.hidden ? mlp.width : 1, layer > 0 ? mlp.width : mlp.inputs)));
      network->register_module("W_" + std::to_string(layer), part);
    }
    register_module("network", network);
  }
  at::Tensor forward(at::Tensor h) {
    for (std::size_t i = 0; i + 1 < weights.size(); ++i) h = at::relu(at::linear(h, weights[i]));
    return at::linear(h, weights.back()).squeeze(1);
  }
  std::shared_ptr<::torch::nn::Module> network = std::make_shared<::torch::nn::Module>();
  std::vector<at::Tensor> weights;
};

class Mlp final : public TrainingTask {
 public:
  explicit Mlp(const Config& config)
      : config_(config), keys_(config.of<MlpKeys>()), model_(std::make_shared<Perceptron>(config)) {
    const Samples all = make_samples(config);
    const auto kept =
        static_cast<std::int64_t>(std::llround((1.0 - keys_.validation) * static_cast<double>(keys_.samples)));
    SPECTRALCLIP_REQUIRE(kept >= 1, "mlp.validation = ", keys_.validation, " leaves no sample of ", keys_.samples,
                         " to train on");
    train_ = all.rows(0, kept);
    validation_ = all.rows(kept, keys_.samples);
  }

  [[nodiscard]] ::torch::nn::Module& model() override { return *model_; }
  [[nodiscard]] std::vector<ParameterGroup> groups() override {
    return standard_groups(trained_parameters(*model_), config_.optimizer);
  }

  at::Tensor loss(std::int64_t step, std::int64_t micro) override {
    const std::int64_t batch = std::min(config_.train.batch, train_.count());
    const std::int64_t batches = (train_.count() + batch - 1) / batch;
    const std::int64_t number = (step - 1) * config_.train.accumulation + micro;
    enter_epoch(number / batches);
    const std::int64_t begin = number % batches * batch;
    return loss_of(epoch_.rows(begin, std::min(begin + batch, train_.count())));
  }

  nlohmann::ordered_json evaluate(bool last) override {
    nlohmann::ordered_json values = nlohmann::ordered_json::object();
    if (last) values["train_loss"] = loss_of(train_).item<double>();
    if (validation_.count() > 0) values["val_loss"] = loss_of(validation_).item<double>();
    return values;
  }

  [[nodiscard]] nlohmann::ordered_json facts() const override {
    return {{"baseline_loss", train_.y.var(/*unbiased=*/false).item<double>()}};
  }

 private:
  [[nodiscard]] at::Tensor loss_of(const Samples& samples) {
    return at::mse_loss(model_->forward(samples.x), samples.y);
  }

  // The training set in the epoch's order, so that a batch is a window of it: one copy an epoch.
  void enter_epoch(std::int64_t epoch) {
    if (keys_.order == "repeat") epoch = 0;
    if (epoch == epoch_number_) return;
    std::vector<std::int64_t> order(static_cast<std::size_t>(train_.count()));
    Draws(config_.seed, "mlp.order", epoch).fill_permutation(order);
    epoch_ = train_.at_rows(at::from_blob(order.data(), {train_.count()}, at::kLong).to(train_.x.device()));
    epoch_number_ = epoch;
  }

  Config config_;
  MlpKeys keys_;
  std::shared_ptr<Perceptron> model_;
  Samples train_, validation_, epoch_;
  std::int64_t epoch_number_ = -1;
};

}  // namespace

TaskInfo mlp_task() {
  return {
      .name = "mlp-heavy-tail",
      .help =
          "a perceptron learns x1 x2 x3 while heavy-tailed noise hits its gradients (the paper's Table 1, "
          "heatmaps)",
      .metrics = {{.name = "train_loss", .label = "training loss"}, {.name = "val_loss", .label = "validation loss"}},
      .groups = {"train", "record", "optimizer", "clip", "noise", "mlp"},
      .make = &train<Mlp>};
}

}  // namespace spectralclip::lab
