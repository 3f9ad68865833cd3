// SPDX-License-Identifier: Apache-2.0
// How one matrix is clipped. An aggregate: name what differs, leave the rest.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace spectralclip {

enum class Method : std::uint8_t {
  exact = 0,          // full SVD in float64
  gram = 1,           // eigen of the smaller Gram matrix in float64
  sketched = 2,       // cold randomized subspace of fixed rank: the paper's Algorithm 2
  tracked = 3,        // warm subspace carried from step to step; passes and rank follow the residual
  newton_schulz = 4,  // clamp by matrix-sign iterations: products only
  automatic = 5       // "auto": by shape and by how many directions were clipped lately
};
[[nodiscard]] const char* to_string(Method method) noexcept;
[[nodiscard]] Method parse_method(std::string_view name);  // throws InvalidArgument listing the names

// What to do when more singular values exceed tau than the subspace may hold.
enum class Exhausted : std::uint8_t {
  go_exact = 0,  // finish with `gram`: everything above tau is clipped, at the price of a dense factorisation
  report = 1     // clip what was found and say `rank_exhausted`
};

struct ClipOptions {
  Method method = Method::tracked;
  // sketched: the rank (10 when unset). tracked: unset lets the rank follow the spectrum; a value fixes it.
  std::optional<std::int64_t> rank = {};
  std::int64_t oversampling = 5;              // sketched: extra columns beside the rank
  int power_passes = 1;                       // sketched: fused passes beyond the first
  double tolerance = 1e-4;                    // tracked: wanted relative error of the removed part
  int max_passes = 4;                         // tracked: at most this many reads of the matrix to decide and refine
  std::int64_t max_columns = 64;              // tracked: widest subspace that a free rank may grow to
  Exhausted exhausted = Exhausted::go_exact;  // tracked with a free rank: beyond max_columns
  bool observe_only = false;                  // report what would be clipped, write nothing
  bool measure_time = false;                  // fill ClipReport::seconds
  std::uint64_t seed = 0;  // random columns come from (seed, matrix id, step, pass): an address, not a state

  friend bool operator==(const ClipOptions&, const ClipOptions&) = default;
};

// Throws InvalidArgument naming the option, its value and its range.
void validate(const ClipOptions& options);

}  // namespace spectralclip
