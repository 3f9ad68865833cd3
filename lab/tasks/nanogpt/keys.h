// SPDX-License-Identifier: Apache-2.0
// Keys of the task nanogpt-shakespeare. The defaults are the published experiment's.
#pragma once

#include <cstdint>
#include <string>

#include "config/key_group.h"
#include "require.h"

namespace spectralclip::lab {

struct NanogptKeys {
  std::int64_t layers = 6;
  std::int64_t heads = 6;
  std::int64_t width = 384;
  std::int64_t context = 256;
  double dropout = 0.2;
  bool bias = true;
  std::string qkv = "separate";
  std::int64_t eval_samples = 200;
  std::int64_t final_samples = 2000;

  template <class See>
  void visit(See&& see) {
    see("nanogpt.layers", layers, between(1, 1000), "blocks");
    see("nanogpt.heads", heads, between(1, 1000), "of attention; they divide the width");
    see("nanogpt.width", width, between(1, 1e5), "of the residual stream");
    see("nanogpt.context", context, between(1, 1e5), "tokens that are seen at once");
    see("nanogpt.dropout", dropout, Range{.low = 0, .high = 1, .open_high = true}, "everywhere nanoGPT has it");
    see("nanogpt.bias", bias, switch_value(), "of linear layers and LayerNorms");
    see("nanogpt.qkv", qkv, Choice{{"separate", "fused"}},
        "queries, keys and values as three matrices (the published code) or one (nanoGPT)");
    see("nanogpt.eval_samples", eval_samples, at_least(1), "validation windows at each evaluation …");
    see("nanogpt.final_samples", final_samples, at_least(1), "… and windows of both sets at the last one");
  }

  void validate() const {
    SPECTRALCLIP_REQUIRE(width % heads == 0, "nanogpt.width = ", width,
                         ": expected a multiple of nanogpt.heads = ", heads);
  }
};

inline KeyGroup nanogpt_keys() { return KeyGroup(NanogptKeys{}); }

}  // namespace spectralclip::lab
