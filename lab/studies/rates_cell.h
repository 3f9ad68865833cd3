// SPDX-License-Identifier: Apache-2.0
// One cell of the study of rates: a method, a theorem and a number of steps K; `repeats` independent runs of SGD.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "spectralclip/executor.h"
#include "studies/fit.h"
#include "studies/rates_problem.h"
#include "studies/rates_theory.h"

namespace spectralclip::lab {

enum class ClipMethod : std::uint8_t { spectral = 0, norm = 1, none = 2 };
inline constexpr std::array<ClipMethod, 3> kClipMethods = {ClipMethod::spectral, ClipMethod::norm, ClipMethod::none};
[[nodiscard]] const char* to_string(ClipMethod method) noexcept;

struct CellPlan {
  ClipMethod method = ClipMethod::spectral;
  int theorem = 2;  // 1 or 2: which schedule, and what is measured
  std::int64_t K = 1;
  std::int64_t place = 0;  // of K in the grid: methods at the same place see the same noise
  TheoryInput input;
  Schedule schedule;
};

// Three estimates of what the theorems bound, min_k E v_k, from the values v of R runs. The noise is heavy-tailed, so
// that E v_k is carried by few runs, and the plain min_k mean_r lies far below it: a minimum over thousands of means of
// which most have missed the rare large values. Averaging over a tenth of the steps first estimates a mean of E v_k,
// which is no smaller than the minimum; only ten of them are compared. The proofs bound even the mean over all steps.
struct CellResult {
  Interval measured;          // least mean over runs and a tenth of the steps; its interval over runs
  double least = 0;           // min_k mean_r: biased downwards
  Interval average;           // mean over runs and all steps
  double mean_delta = 0;      // (1/K) sum Delta_k, Theorem 1
  double bound = 0;           // infinite where the theorem is silent
  std::int64_t diverged = 0;  // runs that became non-finite; then nothing is measured
};

// theorem: the input with d = 1 for norm clipping; no clipping takes the step size of spectral clipping.
[[nodiscard]] CellPlan make_plan(const RatesProblem& problem, const RatesConfig& config, ClipMethod method, int theorem,
                                 std::int64_t K, std::int64_t place);

[[nodiscard]] NoiseConfig noise_of(const RatesConfig& config);

// Equal bits for any executor.
[[nodiscard]] CellResult run_cell(const RatesProblem& problem, const RatesConfig& config, const CellPlan& plan,
                                  std::uint64_t seed, Executor& executor);

}  // namespace spectralclip::lab
