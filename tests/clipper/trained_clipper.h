// SPDX-License-Identifier: Apache-2.0
// What the tests of saved state share: a small model, a clipper with some steps behind it, the text of a refusal.
#pragma once

#include <string>

#include "clipper/toy_model.h"
#include "spectralclip/error.h"

namespace spectralclip::testing {

using Bytes = std::vector<std::uint8_t>;

template <class Call>
[[nodiscard]] std::string refusal_of(const Call& call) {
  try {
    call();
  } catch (const StateFileError& error) {
    return error.what();
  }
  return "";
}

inline ToyModel make_small_model() {
  ToyModel model;
  model.add("a.weight", {6, 5});
  model.add("b.bias", {4}, ScalarType::float32, 0);
  return model;
}

inline Clipper trained(ToyModel& model, const ClipperOptions& options, int steps) {
  Clipper clipper(model.parameters(), options);
  for (int step = 0; step < steps; ++step) {
    model.fill(step);
    (void)clipper.step(model.gradients(), serial_executor());
  }
  return clipper;
}

}  // namespace spectralclip::testing
