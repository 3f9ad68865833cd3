// SPDX-License-Identifier: Apache-2.0
// Training with LibTorch: the clipper stands between backward() and the optimizer's step(). A small network learns
// which of three spiral arms a point lies on; every 25th batch holds a few points that are mislabelled and a hundred
// times too far out, whose gradients are the spikes to be clipped. Prints loss and norms on the way and a line per
// layer at the end. Exits non-zero when spikes pass unclipped or the loss does not fall.
#include <spectralclip/torch.h>
#include <torch/torch.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>

namespace {

constexpr int kSteps = 300;
constexpr int kSpikeEvery = 25;
constexpr std::int64_t kBatch = 128;

struct Batch {
  torch::Tensor points;  // kBatch x 2
  torch::Tensor arms;    // kBatch, int64
};

Batch draw(bool spike) {
  torch::Tensor arms = torch::randint(0, 3, {kBatch}, torch::kLong);
  const torch::Tensor radius = 0.1 + 0.9 * torch::rand({kBatch});
  const torch::Tensor angle = 4 * radius + arms * 2.0944 + 0.1 * torch::randn({kBatch});
  torch::Tensor points = torch::stack({radius * angle.cos(), radius * angle.sin()}, 1);
  if (spike) {
    points.slice(0, 0, 4).mul_(100);
    arms.slice(0, 0, 4).add_(1).remainder_(3);
  }
  return {points, arms};
}

void print_layers(const spectralclip::StepReport& report) {
  std::printf("\n%-10s %-9s %-9s %10s %10s %8s  %s\n", "layer", "matrix", "treatment", "sigma_max", "tau", "clipped",
              "steps clipped");
  for (const spectralclip::LayerReport& layer : report.layers) {
    const std::string matrix = std::to_string(layer.rows) + " x " + std::to_string(layer.cols);
    std::printf("%-10s %-9s %-9s %10.4f %10.4f %8d  %d of %d\n", layer.name.c_str(), matrix.c_str(),
                to_string(layer.treatment), layer.clip.sigma_max, layer.clip.tau, static_cast<int>(layer.clip.clipped),
                static_cast<int>(layer.steps_clipped), static_cast<int>(layer.steps));
  }
}

}  // namespace

int main() try {
  torch::manual_seed(1);
  torch::nn::Sequential model(torch::nn::Linear(2, 64), torch::nn::ReLU(), torch::nn::Linear(64, 64), torch::nn::ReLU(),
                              torch::nn::Linear(64, 3));
  torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.2).momentum(0.9));

  // The use: one clipper for the model …
  spectralclip::torch::SpectralClipperOptions options;
  options.threshold.slack = 1.5;  // tau = 1.5 times the running mean of each layer's largest singular value
  spectralclip::torch::SpectralClipper clipper(*model, options);

  double first = 0, average = 0;
  int caught = 0;
  for (int step = 0; step < kSteps; ++step) {
    const bool spike = step % kSpikeEvery == kSpikeEvery - 1;
    const Batch batch = draw(spike);
    optimizer.zero_grad();
    const torch::Tensor loss = torch::cross_entropy_loss(model->forward(batch.points), batch.arms);
    loss.backward();
    const auto report = clipper.step();  // … and one line in each step.
    optimizer.step();

    const double value = loss.item<double>();
    average = step == 0 ? value : 0.95 * average + 0.05 * value;
    if (step == 0) first = value;
    const double norm = report.total_norm.item<double>();
    caught += spike && report.norm_after() < norm;
    if (step % 50 == 0 || spike) {
      std::printf("step %3d  loss %.4f  norm %9.4f -> %7.4f  layers clipped %d%s\n", step, value, norm,
                  report.norm_after(), static_cast<int>(report.clipped().size()), spike ? "  (spike)" : "");
    }
  }
  print_layers(clipper.report());
  const bool good = caught == kSteps / kSpikeEvery && average < 0.5 * first;
  std::printf("\n%d of %d spikes clipped, loss %.4f -> %.4f: %s\n", caught, kSteps / kSpikeEvery, first, average,
              good ? "the spikes were clipped and the loss fell" : "not what was expected");
  return good ? EXIT_SUCCESS : EXIT_FAILURE;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return EXIT_FAILURE;
}
