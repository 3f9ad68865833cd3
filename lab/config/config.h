// SPDX-License-Identifier: Apache-2.0
// Everything that decides what a run computes. Plain data with the paper's defaults; the name, the range and the help
// of each field stand in declarations.h and nowhere else; a task's own keys come from its folder (key_group.h).
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "config/key_group.h"
#include "spectralclip/options.h"
#include "spectralclip/threshold.h"

namespace spectralclip::lab {

struct TrainConfig {
  std::int64_t steps = 30000;
  double seconds = 0;  // of training, instead of steps; 0: by steps
  std::int64_t batch = 32;
  std::int64_t accumulation = 1;      // batches a step
  std::string autocast = "none";      // bfloat16: products of forward and backward in it
  std::int64_t warmup_steps = 0;      // learning rate: linear rise …
  std::string schedule = "constant";  // … then constant, linear or cosine to `final_lr` times the peak
  double final_lr = 0.0;
};

struct RecordConfig {
  std::int64_t log_every = 25;
  std::int64_t eval_every = 250;         // 0: only at the end
  std::int64_t layers_every = 250;       // thresholds and sigma_max of each layer; 0: never
  std::int64_t spectra_every = 0;        // all singular values before and after; 0: never
  std::int64_t checkpoint_every = 5000;  // 0: only when stopped and at the end
  std::int64_t certify_every = 0;        // clipped gradients looked at in float64; 0: never
};

struct DataConfig {
  std::string path = "found";  // "found": where the data set is found (data/locate.h)
  double corrupt = 0;          // share of labels or tokens that are replaced …
  std::int64_t corrupt_burst = 1;
};

struct OptimizerConfig {
  std::string kind = "sgdm";  // sgd, sgdm, adam, adamw, muon
  double lr = 1e-3;
  double momentum = 0.9;              // sgdm, muon
  std::string momentum_form = "ema";  // ema: the paper's B = beta B + (1 - beta) G; classic: torch's
  bool nesterov = false;
  double weight_decay = 0.0;  // adam, sgdm: coupled; adamw, muon: decoupled
  double beta1 = 0.9;         // adam, adamw
  double beta2 = 0.999;
  double eps = 1e-8;
  std::string vectors = "same";  // what trains all but the matrices: same, adam, adamw …
  double vector_lr = 1e-3;       // … with this rate
};

struct ClipConfig {
  std::string kind = "spectral";  // none, global_norm, layer_norm, agc, coordinate, spectral, soft, soft_update
  double max_norm = 1.0;          // global_norm, layer_norm
  double agc_factor = 0.01;
  double max_value = 1.0;           // coordinate
  double soft_scale = 1.0;          // soft, soft_update
  ClipOptions options = {};         // spectral: method, rank, …
  ThresholdOptions threshold = {};  // spectral: constant, ema, quantile
};

// What is added to every gradient matrix, after backward and before the clip.
struct NoiseConfig {
  std::string kind = "rank_pareto";  // none, gaussian, pareto (both dense), rank_gaussian, rank_pareto
  double probability = 0.1;          // per step
  double scale = 2.0;                // Pareto's x_m; Gaussian's standard deviation
  double alpha = 1.1;                // Pareto's tail index
  std::int64_t rank = 1;
};

struct TraceConfig {
  std::int64_t n = 3;       // X is n x n
  std::int64_t terms = 10;  // N of the paper
  double sigma = 0.01;      // noise in b
  double lr_scale = 0.5;    // lr = lr_scale / L
  std::vector<double> taus = {0.05, 0.1, 0.5, 1.0, 5.0};
  double decay = 0.9;
  double quantile = 0.85;
  std::int64_t window = 100;
  // expectation: over all terms, the definition; monte_carlo: mean of `samples` draws, the published script
  std::string bias = "expectation";
  std::int64_t samples = 10;
  std::string first_step = "zero";           // EMA: the paper's tau_-1 = 0; or unclipped
  std::string quantile_first_step = "zero";  // the paper's tau_-1 = 0; the published script: unclipped
  double ema_eps = 0;                        // added to the sigma_max that the EMA observes; the published script: 1e-8
  std::string interpolation = "linear";
};

struct RatesConfig {
  std::int64_t rows = 8;
  std::int64_t cols = 8;
  double alpha = 1.5;         // moment that the theorems are given, in (1, 2]
  double tail = 1.6;          // tail index of the noise, above alpha (its moment must be finite)
  double tau = 1.0;           // Theorem 1's constant threshold; Theorem 2 has its own
  double noise_scale = 0.15;  // Pareto's x_m
  std::string noise = "rank_pareto";
  std::int64_t noise_rank = 1;
  double distance = 1.0;            // of the start from the minimiser, per entry
  std::int64_t first_steps = 1000;  // smallest K; the largest is train.steps
  std::int64_t points = 6;          // values of K, evenly in log K
  std::int64_t repeats = 100;       // runs that an expectation is taken over
  std::int64_t bias_samples = 16;   // draws that Delta_k is estimated from, at each of …
  std::int64_t bias_points = 16;    // … so many steps of a run
};

struct Config {
  std::string task = "mlp-heavy-tail";
  std::string name = {};  // of the preset or file; labels curves and tables
  std::uint64_t seed = 1;
  std::int64_t threads = 1;
  std::string device = "cpu";
  TrainConfig train = {};
  RecordConfig record = {};
  DataConfig data = {};
  OptimizerConfig optimizer = {};
  ClipConfig clip = {};
  NoiseConfig noise = {};
  TraceConfig trace = {};
  RatesConfig rates = {};
  std::vector<KeyGroup> tasks = task_key_groups();  // what tasks bring

  // The keys of one task: config.of<MlpKeys>().
  template <class Keys>
  [[nodiscard]] const Keys& of() const {
    for (const KeyGroup& group : tasks)
      if (const Keys* keys = group.as<Keys>()) return *keys;
    throw std::logic_error("no task declares these keys");
  }
  template <class Keys>
  [[nodiscard]] Keys& of() {
    return const_cast<Keys&>(std::as_const(*this).of<Keys>());
  }
};

}  // namespace spectralclip::lab
