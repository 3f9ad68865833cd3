// SPDX-License-Identifier: Apache-2.0
// How one matrix is clipped. An aggregate: name what differs, leave the rest.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "spectralclip/export.h"

namespace spectralclip {

enum class Method : std::uint8_t {
  exact = 0,          // full SVD in float64
  gram = 1,           // eigen of the smaller Gram matrix in float64
  sketched = 2,       // cold randomized subspace of fixed rank: the paper's Algorithm 2
  tracked = 3,        // subspace, carried from step to step by a clipper; passes and width follow the residual
  newton_schulz = 4,  // clamp by matrix-sign iterations: products only
  automatic = 5       // "auto": tracked, or gram where that is cheaper
};
[[nodiscard]] SPECTRALCLIP_EXPORT const char* to_string(Method method) noexcept;
[[nodiscard]] SPECTRALCLIP_EXPORT Method
parse_method(std::string_view name);  // throws InvalidArgument listing the names

// What a search does that has read its budget and is not sure, or finds more above tau than its columns hold.
enum class Exhausted : std::uint8_t {
  go_exact = 0,  // finish whatever it costs, by the cheaper way: more reads and columns than the budget has, or `gram`
  report = 1,    // clip what was found and say `not_converged` or `rank_exhausted`
  automatic = 2  // "auto": stateless calls go_exact, clippers report, so that the price of a training step is bounded
};

struct ClipOptions {
  Method method = Method::automatic;
  // sketched: the rank (10 when unset). tracked: unset lets the rank follow the spectrum; a value fixes it.
  std::optional<std::int64_t> rank = {};
  std::int64_t oversampling = 5;               // sketched: extra columns beside the rank
  int power_passes = 1;                        // sketched: fused passes beyond the first
  double tolerance = 1e-4;                     // tracked: wanted relative error of the removed part
  double margin = 1e-3;                        // tracked, sketched: values within tau (1 + margin) need not be lowered
  int max_passes = 8;                          // tracked: the budget, in reads of the matrix
  std::int64_t max_columns = 64;               // tracked: widest subspace that a free rank may grow to
  Exhausted exhausted = Exhausted::automatic;  // tracked with a free rank: when the budget or the columns are used up
  bool observe_only = false;                   // report what would be clipped, write nothing
  bool measure_time = false;                   // fill ClipReport::seconds
  std::uint64_t seed = 0;  // random columns come from (seed, matrix id, step, pass): an address, not a state

  friend bool operator==(const ClipOptions&, const ClipOptions&) = default;
};

// Throws InvalidArgument naming the option, its value and its range.
SPECTRALCLIP_EXPORT void validate(const ClipOptions& options);

}  // namespace spectralclip
