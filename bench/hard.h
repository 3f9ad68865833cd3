// SPDX-License-Identifier: Apache-2.0
// Where an iterative clip has to work: what a step may cost at the worst (spectra flat at tau in every layer, against
// the 45 % mix on the same shapes), how many passes slow gaps take, and whether the model behind `auto` tells the
// cheaper way.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "clip/cost.h"
#include "contenders.h"
#include "findings.h"
#include "layer_set.h"
#include "spectralclip/spectralclip.h"
#include "timing.h"

namespace spectralclip::bench {

using Spectrum = std::vector<double>;

// x -> (I - 2 u u^T / |u|^2) x on the rows' or columns' side, u Gaussian: O(m n) each, and exact to rounding.
inline void reflect(RowMatrix& G, std::uint64_t seed) {
  Eigen::VectorXf left = random_normal(G.rows(), 1, seed, 1), right = random_normal(G.cols(), 1, mixed_bits(seed), 1);
  left.normalize();
  right.normalize();
  G.noalias() -= 2 * left * (left.transpose() * G).eval();
  G.noalias() -= 2 * (G * right).eval() * right.transpose();
}

// rows x cols with these singular values, hidden from the axes by a few reflections.
inline RowMatrix with_values(std::int64_t rows, std::int64_t cols, const Spectrum& sigma, std::uint64_t seed) {
  RowMatrix G = RowMatrix::Zero(rows, cols);
  for (std::size_t i = 0; i < sigma.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i);
    G(at, at) = static_cast<float>(sigma[i]);
  }
  for (std::uint64_t i = 0; i < 6; ++i) reflect(G, mixed_bits(seed + i));
  return G;
}

inline Spectrum over(std::int64_t r, std::int64_t count, double high, double height) {
  Spectrum sigma(static_cast<std::size_t>(r), height);
  std::fill_n(sigma.begin(), count, high);
  return sigma;
}

// ---- the worst step

struct FlatKind {
  const char* name;
  double low, high;  // singular values spread evenly between them, tau = 1
};
inline constexpr FlatKind kFlatKinds[] = {{"all a hair below tau", 0.998, 0.9999},
                                          {"all within the margin", 1.0001, 1.0009},
                                          {"around tau", 0.98, 1.02},
                                          {"all above tau", 1.01, 1.02},
                                          {"slowly falling through tau", 0.5, 1.5}};

// One block of GPT-2, the same flat spectrum in every layer, clipped step after step from the state of the last.
class FlatBlock {
 public:
  explicit FlatBlock(const FlatKind& kind) {
    std::vector<Parameter> parameters;
    for (const LayerShape& shape : kGpt2Block) {
      const std::int64_t r = std::min(shape.rows, shape.cols);
      Spectrum sigma;
      for (std::int64_t i = 0; i < r; ++i) {
        sigma.push_back(kind.high + (kind.low - kind.high) * static_cast<double>(i) / static_cast<double>(r - 1));
      }
      masters_.push_back(with_values(shape.rows, shape.cols, sigma, masters_.size() + 7));
      works_.push_back(masters_.back());
      parameters.push_back({.name = shape.name, .shape = {shape.rows, shape.cols}});
    }
    for (RowMatrix& work : works_) gradients_.push_back({.data = work.data()});
    ClipperOptions options;
    options.threshold = {.kind = ThresholdKind::constant, .tau = 1};
    clipper_.emplace(parameters, options);
  }
  double step(Executor& executor) {
    for (std::size_t i = 0; i < works_.size(); ++i) works_[i] = masters_[i];
    return milliseconds([&] { report_ = clipper_->step(gradients_, executor); });
  }
  [[nodiscard]] std::string outcome() const {
    double passes = 0;
    for (const LayerReport& layer : report_.layers) passes += layer.clip.passes;
    return number(passes / static_cast<double>(report_.layers.size())) + " passes, " +
           std::to_string(report_.layers_not_converged) + " of " + std::to_string(report_.layers.size()) +
           " layers not converged, " + std::to_string(report_.layers_rank_exhausted) + " rank exhausted";
  }

 private:
  std::vector<RowMatrix> masters_, works_;
  std::vector<Gradient> gradients_;
  std::optional<Clipper> clipper_;
  StepReport report_;
};

inline void run_worst(const std::vector<int>& threads, int rounds, Executor& all, Results& results) {
  constexpr std::int64_t kBlocks = 3;  // blocks of the mix: 45 % of one block's four layers is no whole number
  show_progress("worst: making gradients");
  const LayerSet set = make_layer_set(kBlocks, all);
  for (const int count : threads) {
    ThreadPool pool(count);
    SetClipper mix(set, Task::mix);
    std::vector<FlatBlock> flats;
    for (const FlatKind& kind : kFlatKinds) flats.emplace_back(kind);
    std::vector<std::vector<double>> ratios(flats.size());
    for (int round = -2 * static_cast<int>(kVariants); round < rounds; ++round) {  // the first warm up
      show_progress("worst, " + std::to_string(count) + " thread(s), round " + std::to_string(round + 1));
      restore(set, round + 2 * kVariants, all);
      const double usual = milliseconds([&] { (void)mix.step(pool); }) / kBlocks;
      for (std::size_t i = 0; i < flats.size(); ++i) {
        const double ms = flats[i].step(pool);
        if (round >= 0) ratios[i].push_back(ms / usual);
      }
    }
    for (std::size_t i = 0; i < flats.size(); ++i) {
      results.add(
          {std::string("flat spectra in every layer, ") + kFlatKinds[i].name + ": step over that of the 45 % mix",
           count, median(ratios[i]), "x", Bar{6}, flats[i].outcome()});
    }
  }
}

// ---- slow gaps

// Passes from a cold start until what stands above tau = 1 is lowered and nothing else is hidden, the bulk a gap below
// tau.
inline void run_gaps(Results& results) {
  for (const std::int64_t n : {256, 1024, 4096}) {
    for (const double gap : {0.01, 0.05, 0.2}) {
      for (const std::int64_t count : {1, 10, 40}) {
        show_progress("gaps, " + std::to_string(n) + ", " + number(100 * gap) + " %, " + std::to_string(count));
        RowMatrix G = with_values(n, n, over(n, count, 1 + gap, 1 - gap), 3);
        const MatrixView<float> view(G.data(), n, n);
        ClipOptions options{.method = Method::tracked, .exhausted = Exhausted::report};
        options.max_passes = 64;
        options.max_columns = 512;
        MatrixClipper clipper(n, n, options);
        const ClipReport report = clipper.clip(view, 1);
        // A power iteration gains ((1 - gap) / (1 + gap))^2 a pass: 1e-4 from a random start of size 1 / sqrt(n).
        const double powers =
            std::log(1e-4 / std::sqrt(static_cast<double>(n))) / (2 * std::log((1 - gap) / (1 + gap)));
        results.add({"passes, " + std::to_string(n) + " x " + std::to_string(n) + ", " + std::to_string(count) +
                         " values of " + number(1 + gap) + " over a plateau of " + number(1 - gap),
                     1,
                     static_cast<double>(report.passes),
                     "",
                     {},
                     std::string(to_string(report.status)) + ", " + std::to_string(report.clipped) + " lowered, " +
                         std::to_string(report.columns) + " columns; repeated passes would take " + number(powers)});
      }
    }
  }
}

// ---- the model of cost.h

inline void run_cost(int rounds, Results& results) {
  constexpr std::array<LayerShape, 9> kShapes = {{{"", 16, 16},
                                                  {"", 64, 64},
                                                  {"", 128, 128},
                                                  {"", 256, 256},
                                                  {"", 512, 512},
                                                  {"", 768, 3072},
                                                  {"", 1000, 37},
                                                  {"", 4096, 64},
                                                  {"", 64, 48}}};
  for (const LayerShape& shape : kShapes) {
    const std::string name = std::to_string(shape.rows) + " x " + std::to_string(shape.cols);
    show_progress("cost, " + name);
    const std::int64_t r = std::min(shape.rows, shape.cols);
    const double entries = static_cast<double>(shape.rows) * static_cast<double>(shape.cols);
    const int repeats = static_cast<int>(std::clamp(2e6 / entries, 1.0, 100.0));
    const RowMatrix half = with_values(shape.rows, shape.cols, over(r, r / 2, 2, 0.5), 5);
    const RowMatrix few = with_values(shape.rows, shape.cols, over(r, 1, 2, 0.1), 5);
    RowMatrix G = half;
    const MatrixView<float> view(G.data(), shape.rows, shape.cols);
    const auto time_of = [&](const RowMatrix& master, Method method, Exhausted exhausted, bool stateless) {
      ClipOptions options{.method = method, .exhausted = exhausted};
      MatrixClipper clipper(shape.rows, shape.cols, options);
      std::vector<double> us;
      for (int round = 0; round < rounds * repeats; ++round) {
        G = master;
        us.push_back(1e3 * milliseconds([&] {
                       (void)(stateless ? clip_singular_values(view, 1, options) : clipper.clip(view, 1));
                     }));
      }
      return median(us);
    };
    const double gram = time_of(half, Method::gram, Exhausted::automatic, true);
    const double automatic = time_of(half, Method::automatic, Exhausted::automatic, true);
    const double search = time_of(few, Method::tracked, Exhausted::report, false);
    const double chosen = time_of(few, Method::automatic, Exhausted::automatic, false);
    results.add({"gram, " + name, 1, gram, "us", {}, "model: " + number(gram_cost(shape.rows, shape.cols))});
    results.add(
        {"stateless auto over gram, half of the values above tau, " + name, 1, automatic / gram, "x", Bar{2.5}});
    results.add({"a tracked step with one value above tau, " + name,
                 1,
                 search,
                 "us",
                 {},
                 "auto: " + number(chosen) + "; model of two passes with 8 columns: " +
                     number(2 * pass_cost(shape.rows, shape.cols, kTypicalColumns))});
  }
}

}  // namespace spectralclip::bench
