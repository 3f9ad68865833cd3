// SPDX-License-Identifier: Apache-2.0
// Many matrices over many steps: a clipper between the backward pass and the optimizer, and its telemetry as JSON
// lines. The gradients here are random; every eighth carries a rank-one spike. Exits non-zero when a spike is not
// clipped.
#include <spectralclip/spectralclip.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <random>
#include <sstream>
#include <vector>

namespace sc = spectralclip;

namespace {

void backward(std::vector<float>& gradient, bool spike, std::mt19937& bits) {  // stands for a real backward pass
  std::normal_distribution<float> normal;
  const float lift = spike ? 1.0F : 0.0F;
  for (float& entry : gradient) entry = 0.01F * normal(bits) + lift;
}

}  // namespace

int main() try {
  std::mt19937 bits(1);
  std::vector<float> fc(256 * 64), bias(256);
  std::ostringstream telemetry;

  // The use: name the parameters once …
  sc::Clipper clipper({{"mlp.fc.weight", {256, 64}}, {"mlp.fc.bias", {256}}},
                      {.threshold = {.kind = sc::ThresholdKind::ema, .decay = 0.9, .slack = 1.5}});
  sc::JsonlWriter writer(telemetry);
  int spikes = 0, caught = 0;
  for (int step = 1; step <= 40; ++step) {
    const bool spike = step % 8 == 0;
    backward(fc, spike, bits);
    backward(bias, spike, bits);
    // … then, each step, hand over the gradients in that order.
    const sc::StepReport report = clipper.step(std::vector<sc::Gradient>{{.data = fc.data()}, {.data = bias.data()}});
    writer.write(report, {{"lr", 1e-3}});
    spikes += spike;
    caught += spike && report.layers_clipped == 2;
  }
  std::cout << telemetry.str().substr(0, telemetry.str().find('\n')) << "\n…\n";
  for (const sc::LayerReport& layer : clipper.layers()) {
    std::cout << layer.name << " (" << layer.rule << "): clipped in " << layer.steps_clipped << " of " << layer.steps
              << " steps\n";
  }
  return spikes == 5 && caught == spikes ? EXIT_SUCCESS : EXIT_FAILURE;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return EXIT_FAILURE;
}
