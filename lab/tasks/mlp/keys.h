// SPDX-License-Identifier: Apache-2.0
// Keys of the task mlp-heavy-tail.
#pragma once

#include <cstdint>
#include <string>

#include "config/key_group.h"
#include "require.h"

namespace spectralclip::lab {

struct MlpKeys {
  std::int64_t inputs = 100;
  std::int64_t width = 100;
  std::int64_t hidden = 3;   // hidden layers
  std::int64_t factors = 3;  // y = x_1 … x_factors
  std::int64_t samples = 10000;
  double validation = 0.2;        // share of the samples
  std::string order = "shuffle";  // shuffle: anew each epoch; repeat: the first epoch's order for ever (published code)

  template <class See>
  void visit(See&& see) {
    see("mlp.inputs", inputs, between(1, 1e5), "coordinates of x");
    see("mlp.width", width, between(1, 1e5), "of the hidden layers");
    see("mlp.hidden", hidden, between(0, 100), "hidden layers");
    see("mlp.factors", factors, between(1, 1e5), "y = x_1 … x_factors");
    see("mlp.samples", samples, between(2, 1e8), "training and validation together");
    see("mlp.validation", validation, Range{.low = 0, .high = 1, .open_high = true}, "share kept for validation");
    see("mlp.order", order, Choice{{"shuffle", "repeat"}},
        "anew each epoch, or the first epoch's order for ever (the published code)");
  }

  void validate() const {
    SPECTRALCLIP_REQUIRE(factors <= inputs, "mlp.factors = ", factors, ": expected at most mlp.inputs = ", inputs);
  }
};

inline KeyGroup mlp_keys() { return KeyGroup(MlpKeys{}); }

}  // namespace spectralclip::lab
