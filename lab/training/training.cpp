// SPDX-License-Identifier: Apache-2.0
// The training loop, one for all tasks: loss, backward, noise, clip, step.
#include "training/training.h"

#include <torch/torch.h>

#include <cmath>
#include <limits>

#include "noise/noise.h"
#include "spectralclip/torch/sixteen_bit.h"
#include "training/archive.h"
#include "training/optimizers.h"
#include "training/progress.h"
#include "training/task.h"
#include "training/telemetry.h"

namespace spectralclip::lab {
namespace {

using nlohmann::ordered_json;
constexpr std::int64_t kFirstSteps = 20;  // each of them is logged: that is where a run shows whether it will work
constexpr std::int64_t kNoEnd = 1'000'000'000;  // steps of a run that ends by time

// In place; a gradient that is not packed float32 on the CPU goes through a copy.
void add_noise_to(at::Tensor& gradient, const NoiseConfig& config, Draws& draws) {
  const bool direct = gradient.is_cpu() && gradient.is_contiguous() && gradient.scalar_type() == at::kFloat;
  const at::Tensor packed = direct ? gradient : gradient.to(at::kCPU, at::kFloat).contiguous();
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
        device_(device_of(config)),
        task_(std::move(task)),
        parameters_(trained_parameters(task_->model())),
        clipped_(task_->clipped()),
        optimizers_(task_->groups()),
        clipper_(make_clipper(clipped_, config.clip)),
        times_(device_) {
    if (clipper_->spectral() == nullptr && config.record.layers_every > 0)
      observer_ = std::make_unique<spectralclip::torch::SpectralClipper>(make_observer(clipped_));
  }

  [[nodiscard]] std::int64_t steps() const override { return config_.train.seconds > 0 ? kNoEnd : config_.train.steps; }
  [[nodiscard]] bool done() const override {
    return config_.train.seconds > 0 && times_.total() >= config_.train.seconds;
  }

  void step(std::int64_t step, Recorder& recorder) override {
    const double share = config_.train.seconds > 0 ? times_.total() / config_.train.seconds : 0;
    const double scheduled = scheduled_rate(config_.train, step, share), lr = config_.optimizer.lr * scheduled;
    optimizers_.set_rates([&](const std::string& group) { return task_->rate(group, step, scheduled); });
    ::torch::manual_seed(Draws(config_.seed, "torch", step).bits());
    optimizers_.zero_grad();
    for (std::int64_t micro = 0; micro < config_.train.accumulation; ++micro) backward(step, micro);
    add_noise_to_gradients(step);
    const bool logged = is_logged(step);
    if (logged) norm_before_ = gradient_norm(parameters_);
    clip(step, recorder);
    if (logged) norm_after_ = gradient_norm(parameters_);
    times_.measure(TrainStage::optimizer, [&] {
      optimizers_.step();
      clipper_->after_step(lr);
    });
    if (logged || is_last(step)) log(step, lr, recorder);
  }

  [[nodiscard]] std::pair<std::string, double> headline() const override { return {"loss", progress_.last_loss}; }

  void save(StateWriter& out) const override {
    write_weights(out, task_->model());
    optimizers_.save(out);
    out.put("clipper", clipper_->serialize());
    if (observer_) out.put("observer", observer_->serialize());
    progress_.save(out);
    certificate_.save(out);
    times_.save(out);
  }

  void load(const StateReader& in) override {
    read_weights(in, task_->model());
    optimizers_.load(in);
    clipper_->deserialize(in.bytes("clipper"));
    if (observer_) observer_->deserialize(in.bytes("observer"));
    progress_.load(in);
    certificate_.load(in);
    times_.load(in);
  }

  [[nodiscard]] ordered_json results() override {
    ordered_json results = final_.is_null() ? evaluate(true) : final_;
    if (progress_.evaluations > 1) results["best_" + results.begin().key()] = progress_.best;
    results["min_loss"] = progress_.least_loss;
    results.update(task_->facts());
    return results;
  }

  [[nodiscard]] ordered_json notes() const override {
    ordered_json notes{{"timing", times_.json()}};
    if (clipper_->spectral() != nullptr) notes["certificate"] = certificate_.json();
    return notes;
  }

 private:
  void backward(std::int64_t step, std::int64_t micro) {
    const auto passes = static_cast<double>(config_.train.accumulation);
    const at::Tensor loss = times_.measure(TrainStage::forward, [&] {
      const Autocast autocast(device_, config_.train.autocast);
      return task_->loss(step, micro);
    });
    progress_.last_loss = loss.item<double>();
    if (!std::isfinite(progress_.last_loss)) throw Diverged("the loss is " + std::to_string(progress_.last_loss));
    progress_.loss_sum += progress_.last_loss;
    ++progress_.loss_count;
    times_.measure(TrainStage::backward, [&] { (passes > 1 ? loss / passes : loss).backward(); });
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
    const bool spectra = due(step, config_.record.spectra_every), layers = due(step, config_.record.layers_every);
    const std::vector<at::Tensor> before = spectra ? gradient_spectra(clipped_) : std::vector<at::Tensor>();
    if (layers && observer_) {
      (void)observer_->step();
      recorder.layers(step, observed_layers(observer_->report()));
    }
    times_.measure(TrainStage::clip, [&] { (void)clipper_->before_step(); });
    if (spectra) recorder.spectra(step, spectra_lines(clipped_, before, gradient_spectra(clipped_)));
    auto* spectral = clipper_->spectral();
    if (spectral == nullptr) return;
    const StepReport report = spectral->report();
    certificate_.count(report);
    if (due(step, config_.record.certify_every)) certificate_.check(report, clipped_, config_.clip.options.margin);
    if (layers) recorder.layers(step, layer_lines(report));
  }

  [[nodiscard]] bool is_last(std::int64_t step) const { return step == steps() || done(); }
  [[nodiscard]] bool is_logged(std::int64_t step) const {
    return step <= kFirstSteps || due(step, config_.record.log_every) || due(step, config_.record.eval_every) ||
           step == steps();
  }

  ordered_json evaluate(bool last) {
    const at::NoGradGuard no_grad;
    task_->model().eval();
    ordered_json values;
    {
      const Autocast autocast(device_, config_.train.autocast);
      values = task_->evaluate(last);
    }
    task_->model().train();
    return values;
  }

  // The main metric is the first that the final evaluation has; until then the first of what there is.
  void remember_best(const ordered_json& values) {
    if (values.empty() || !values.begin()->is_number()) return;
    const double value = values.begin()->get<double>();
    const bool smaller = task_->better() == Better::smaller;
    if (!(smaller ? value >= progress_.best : value <= progress_.best)) progress_.best = value;
    ++progress_.evaluations;
  }

  void log(std::int64_t step, double lr, Recorder& recorder) {
    if (progress_.loss_count == 0) return;
    const double loss = progress_.loss_sum / static_cast<double>(progress_.loss_count);
    progress_.least_loss = std::min(progress_.least_loss, loss);
    progress_.loss_sum = 0;
    progress_.loss_count = 0;
    ordered_json line{{"loss", loss}, {"lr", lr}};
    if (is_logged(step)) {  // a last step that time decided was not expected: nobody looked at its gradients
      line["grad_norm_pre"] = norm_before_;
      line["grad_norm_post"] = norm_after_;
    }
    line["train_seconds"] = times_.total();
    const bool last = is_last(step);
    if (due(step, config_.record.eval_every) || last) {
      const ordered_json values = evaluate(last);
      if (last) final_ = values;
      remember_best(values);
      line.update(values);
    }
    recorder.metrics(step, line);
  }

  Config config_;
  at::Device device_;
  std::unique_ptr<TrainingTask> task_;
  NamedTensors parameters_, clipped_;
  Optimizers optimizers_;
  std::unique_ptr<spectralclip::torch::GradientClipper> clipper_;
  std::unique_ptr<spectralclip::torch::SpectralClipper> observer_;  // null where the clipper itself says what it saw
  StageTimes times_;
  Certificate certificate_;
  LossProgress progress_;
  double norm_before_ = 0, norm_after_ = 0;  // of the step that is logged
  ordered_json final_;                       // the last evaluation, once it was made
};

}  // namespace

std::unique_ptr<Experiment> make_training(const Config& config, MakeTask make) {
  at::set_num_threads(static_cast<int>(config.threads));
  ::torch::manual_seed(config.seed);
  return std::make_unique<Training>(config, make(config));
}

std::string torch_text() {
  return std::string(TORCH_VERSION) + " (" + std::to_string(at::get_num_threads()) + " threads by default)";
}

std::string sixteen_bit_failure() { return spectralclip::torch::sixteen_bit_failure(); }

}  // namespace spectralclip::lab
