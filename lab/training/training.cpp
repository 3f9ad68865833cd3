// SPDX-License-Identifier: Apache-2.0
#include "training/training.h"

#include <torch/torch.h>

#include <cmath>
#include <limits>

#include "noise/noise.h"
#include "spectralclip/torch/sixteen_bit.h"
#include "training/mlp.h"
#include "training/optimizers.h"
#include "training/state.h"
#include "training/telemetry.h"

namespace spectralclip::lab {
namespace {

using nlohmann::ordered_json;
constexpr std::int64_t kFirstSteps = 20;  // each of them is logged: that is where a run shows whether it will work

// In place; a gradient that is not packed float32 goes through a copy.
void add_noise_to(at::Tensor& gradient, const NoiseConfig& config, Draws& draws) {
  const bool direct = gradient.is_contiguous() && gradient.scalar_type() == at::kFloat;
  const at::Tensor packed = direct ? gradient : gradient.to(at::kFloat).contiguous();
  const std::int64_t rows = packed.dim() == 0 ? 1 : packed.size(0);
  add_noise(MatrixView<float>(packed.data_ptr<float>(), rows, packed.numel() / std::max<std::int64_t>(rows, 1)), config,
            draws);
  if (!direct) gradient.copy_(packed);
}

bool due(std::int64_t step, std::int64_t every) { return every > 0 && step % every == 0; }

class Training final : public Experiment {
 public:
  Training(const Config& config, std::unique_ptr<TrainingTask> task)
      : config_(config),
        task_(std::move(task)),
        parameters_(task_->parameters()),
        optimizer_(make_optimizer(parameters_, config.optimizer)),
        clipper_(make_clipper(parameters_, config.clip)) {}

  [[nodiscard]] std::int64_t steps() const override { return config_.train.steps; }

  void step(std::int64_t step, Recorder& recorder) override {
    const double lr = learning_rate(config_, step);
    set_learning_rate(*optimizer_, lr);
    backward(step);
    add_noise_to_gradients(step);
    clip(step, recorder);
    optimizer_->step();
    clipper_->after_step(lr);
    if (is_logged(step)) log(step, lr, recorder);
  }

  [[nodiscard]] std::pair<std::string, double> headline() const override { return {"loss", progress_.last_loss}; }

  [[nodiscard]] Sections save() const override {
    return {{"weights", saved(parameters_)},
            {"optimizer", saved(*optimizer_)},
            {"clipper", clipper_->serialize()},
            {"generator", saved_generator()},
            {"progress", saved(progress_)}};
  }

  void load(const Sections& sections) override {
    load_weights(parameters_, section(sections, "weights"));
    load_optimizer(*optimizer_, section(sections, "optimizer"));
    clipper_->deserialize(section(sections, "clipper"));
    load_generator(section(sections, "generator"));
    progress_ = loaded_progress(section(sections, "progress"));
  }

  [[nodiscard]] ordered_json results() override {
    ordered_json results = task_->evaluate(true);
    results["min_loss"] = progress_.least_loss;
    results.update(task_->facts());
    return results;
  }

 private:
  void backward(std::int64_t step) {
    optimizer_->zero_grad();
    const at::Tensor loss = task_->loss(step);
    progress_.last_loss = loss.item<double>();
    if (!std::isfinite(progress_.last_loss)) throw Diverged("the loss is " + std::to_string(progress_.last_loss));
    progress_.loss_sum += progress_.last_loss;
    ++progress_.loss_count;
    loss.backward();
  }

  void add_noise_to_gradients(std::int64_t step) {
    if (!noise_hits(config_.noise, config_.seed, step)) return;
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      at::Tensor& gradient = parameters_[i].second.mutable_grad();
      if (!gradient.defined()) continue;
      Draws draws(config_.seed, "noise", step, static_cast<std::int64_t>(i));
      add_noise_to(gradient, config_.noise, draws);
    }
  }

  void clip(std::int64_t step, Recorder& recorder) {
    const bool spectra = due(step, config_.record.spectra_every);
    const std::vector<at::Tensor> before = spectra ? gradient_spectra(parameters_) : std::vector<at::Tensor>();
    norm_before_ = clipper_->before_step();
    if (spectra) recorder.spectra(step, spectra_lines(parameters_, before, gradient_spectra(parameters_)));
    if (!due(step, config_.record.layers_every)) return;
    auto* spectral = clipper_->spectral();
    recorder.layers(step, spectral != nullptr ? layer_lines(spectral->report()) : measured_layers(parameters_));
  }

  [[nodiscard]] bool is_logged(std::int64_t step) const {
    return step <= kFirstSteps || due(step, config_.record.log_every) || due(step, config_.record.eval_every) ||
           step == steps();
  }

  void log(std::int64_t step, double lr, Recorder& recorder) {
    const double loss = progress_.loss_sum / static_cast<double>(progress_.loss_count);
    progress_.least_loss = std::min(progress_.least_loss, loss);
    progress_.loss_sum = 0;
    progress_.loss_count = 0;
    ordered_json line{{"loss", loss},
                      {"lr", lr},
                      {"grad_norm_pre", norm_before_.item<double>()},
                      {"grad_norm_post", gradient_norm(parameters_)}};
    if (due(step, config_.record.eval_every) || step == steps()) line.update(task_->evaluate(step == steps()));
    recorder.metrics(step, line);
  }

  Config config_;
  std::unique_ptr<TrainingTask> task_;
  spectralclip::torch::NamedTensors parameters_;
  std::unique_ptr<::torch::optim::Optimizer> optimizer_;
  std::unique_ptr<spectralclip::torch::GradientClipper> clipper_;
  at::Tensor norm_before_;
  LossProgress progress_;
};

std::unique_ptr<Experiment> make_mlp_training(const Config& config) {
  at::set_num_threads(static_cast<int>(config.threads));
  ::torch::manual_seed(config.seed);
  return std::make_unique<Training>(config, make_mlp(config));
}

}  // namespace

std::string torch_text() {
  return std::string(TORCH_VERSION) + " (" + std::to_string(at::get_num_threads()) + " threads by default)";
}

std::string sixteen_bit_failure() { return spectralclip::torch::sixteen_bit_failure(); }

std::vector<TaskInfo> training_tasks() {
  return {{"mlp-heavy-tail",
           "a perceptron learns x1 x2 x3 while heavy-tailed noise hits its gradients (the paper's Table 1, heatmaps)",
           "train_loss",
           {"train", "record", "optimizer", "clip", "noise", "mlp"},
           make_mlp_training}};
}

}  // namespace spectralclip::lab
