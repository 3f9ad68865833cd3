// SPDX-License-Identifier: Apache-2.0
// The idea in a terminal: a rank-three signal under rank-one heavy-tailed spikes, norm clipping beside spectral
// clipping, both with the same rule for their threshold. Everything printed is computed from this run.
#include <spectralclip/spectralclip.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "singular_values.h"
#include "text_chart.h"

namespace sc = spectralclip;
using Matrix = std::vector<float>;  // kRows x kCols, row-major

namespace {

constexpr int kRows = 192, kCols = 256, kSteps = 200, kFirstCounted = 10, kShown = 12;
constexpr double kSignal[] = {1.0, 0.6, 0.35};
constexpr double kAlpha = 1.1,
                 kSpikeScale = 0.15;  // |spike| = kSpikeScale * Pareto(alpha): above 1 in one step of eight
constexpr double kNoise = 0.05;       // spectral norm of the dense part

struct Options {
  unsigned seed = 3;
  bool no_color = false;
};
const char kHelp[] =
    "usage: example_demo [--seed N] [--no-color]\n"
    "A low-rank signal under rank-one Pareto(1.1) spikes over 200 steps: norm clipping beside spectral clipping.\n";

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument == "-h" || argument == "--help") {
      std::fputs(kHelp, stdout);
      std::exit(EXIT_SUCCESS);
    } else if (argument == "--no-color") {
      options.no_color = true;
    } else if (argument == "--seed" && i + 1 < argc) {
      options.seed = static_cast<unsigned>(std::stoul(argv[++i]));
    } else {
      throw std::invalid_argument("unknown argument '" + std::string(argument) + "'\n" + kHelp);
    }
  }
  return options;
}

std::vector<double> unit_vector(int n, std::mt19937_64& bits) {
  std::normal_distribution<double> normal;
  std::vector<double> x(static_cast<std::size_t>(n));
  double sum = 0;
  for (double& entry : x) {
    entry = normal(bits);
    sum += entry * entry;
  }
  for (double& entry : x) entry /= std::sqrt(sum);
  return x;
}

// G += sigma u v^T for random unit vectors: nearly orthogonal to one another in this many dimensions.
void add_rank_one(Matrix& G, double sigma, std::mt19937_64& bits) {
  const auto u = unit_vector(kRows, bits), v = unit_vector(kCols, bits);
  for (std::size_t i = 0; i < kRows; ++i) {
    for (std::size_t j = 0; j < kCols; ++j) G[i * kCols + j] += static_cast<float>(sigma * u[i] * v[j]);
  }
}

void add_noise(Matrix& G, std::mt19937_64& bits) {
  std::normal_distribution<double> normal(0, kNoise / (std::sqrt(kRows) + std::sqrt(kCols)));
  for (float& entry : G) entry += static_cast<float>(normal(bits));
}

double pareto(std::mt19937_64& bits) {  // two-sided
  const double u = 1 - std::uniform_real_distribution<double>()(bits);
  return (bits() % 2 == 0 ? 1 : -1) * kSpikeScale * std::pow(u, -1 / kAlpha);
}

double dot(const Matrix& A, const Matrix& B) {
  double sum = 0;
  for (std::size_t i = 0; i < A.size(); ++i) sum += static_cast<double>(A[i]) * static_cast<double>(B[i]);
  return sum;
}

double relative_error(const Matrix& A, const Matrix& signal) {
  return std::sqrt((dot(A, A) - 2 * dot(A, signal) + dot(signal, signal)) / dot(signal, signal));
}

std::vector<double> leading(const Matrix& G) {
  std::vector<double> sigma = singular_values(std::vector<double>(G.begin(), G.end()), kRows, kCols);
  sigma.resize(kShown);
  return sigma;
}

struct Outcome {
  std::vector<double> error, cosine, seconds;  // one per step
  Matrix shown;                                // the gradient of the step on the chart, clipped
  sc::ClipReport report;                       // … and what was said of it
};

// One clipper, one threshold rule over it. clip(G, tau) -> report with sigma_max (or the norm) of the unclipped G.
template <class Clip>
void take_step(Outcome& out, sc::ThresholdState& state, Matrix G, const Matrix& signal, bool show, Clip clip) {
  const sc::ThresholdOptions rule;  // EMA, decay 0.9
  const auto start = std::chrono::steady_clock::now();
  const sc::ClipReport report = clip(sc::MatrixView<float>(G.data(), kRows, kCols), sc::threshold(rule, state));
  out.seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  if (report.status != sc::ClipStatus::ok) throw std::runtime_error(sc::to_string(report.status));
  sc::observe(rule, state, report.sigma_max);
  out.error.push_back(relative_error(G, signal));
  out.cosine.push_back(dot(G, signal) / std::sqrt(dot(G, G) * dot(signal, signal)));
  if (show) out.shown = std::move(G), out.report = report;
}

double quantile(std::vector<double> values, double q) {
  if (values.empty()) return NAN;
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(std::lround(q * static_cast<double>(values.size() - 1)))];
}

std::vector<double> pick(const std::vector<double>& values, const std::vector<double>& spike, bool spiked) {
  std::vector<double> picked;
  for (std::size_t t = kFirstCounted; t < values.size(); ++t) {
    if ((std::abs(spike[t]) > kSignal[0]) == spiked) picked.push_back(values[t]);
  }
  return picked;
}

void print_rows(const char* kind, const Outcome& out, const std::vector<double>& spike) {
  for (const bool spiked : {true, false}) {
    const auto error = pick(out.error, spike, spiked), cosine = pick(out.cosine, spike, spiked);
    std::printf("  %-20s %-6s %5zu   %7.2f %7.2f %7.2f   %6.2f\n", kind, spiked ? "spike" : "quiet", error.size(),
                quantile(error, 0.5), quantile(error, 0.9), quantile(error, 1), quantile(cosine, 0.5));
  }
}

// The step whose spike is larger than three quarters of them: one that any clipping should notice.
std::size_t telling_step(const std::vector<double>& spike) {
  std::vector<double> sizes(spike);
  for (double& size : sizes) size = std::abs(size);
  const auto found = std::find(sizes.begin(), sizes.end(), quantile(pick(sizes, spike, true), 0.75));
  if (found == sizes.end()) throw std::runtime_error("this seed drew no spike");
  return static_cast<std::size_t>(found - sizes.begin());
}

std::string verdict(double norm, double spectral) {
  char text[160];
  if (spectral == norm) return "both are equally far from it";
  const bool better = spectral < norm;
  std::snprintf(text, sizeof text, "%s clipping is the closer one (median error %.2f against %.2f)",
                better ? "spectral" : "norm", better ? spectral : norm, better ? norm : spectral);
  return text;
}

void print_words(const Outcome& none, const Outcome& norm, const Outcome& spectral, const std::vector<double>& spike) {
  const auto median = [&](const std::vector<double>& values, bool spiked) {
    return quantile(pick(values, spike, spiked), 0.5);
  };
  const double norm_cosine = median(norm.cosine, true), cosine = median(spectral.cosine, true);
  std::printf(
      "What one sees: norm clipping multiplies every singular value by one number, so the spike stays the largest and\n"
      "the signal shrinks with it; spectral clipping lowers only what stands above tau. Measured against the signal,\n"
      "on spike steps %s\nand points %s it (cosine %.2f against %.2f); on quiet steps %s.\n",
      verdict(median(norm.error, true), median(spectral.error, true)).c_str(),
      cosine > norm_cosine ? "more along" : "no better along", cosine, norm_cosine,
      verdict(median(norm.error, false), median(spectral.error, false)).c_str());
  std::printf("Unclipped, the median error on spike steps is %.2f.\n\n", median(none.error, true));
}

void run(const Options& options) {
  std::mt19937_64 bits(options.seed);
  Matrix signal(kRows * kCols);
  for (const double sigma : kSignal) add_rank_one(signal, sigma, bits);
  std::vector<double> spike(kSteps);
  for (double& x : spike) x = pareto(bits);
  const std::size_t shown = telling_step(spike);

  Outcome none, norm, spectral;
  sc::ThresholdState none_state, norm_state, spectral_state;
  sc::MatrixClipper clipper(kRows, kCols);
  for (std::size_t t = 0; t < kSteps; ++t) {
    Matrix G = signal;
    add_rank_one(G, spike[t], bits);
    add_noise(G, bits);
    take_step(none, none_state, G, signal, t == shown, [](auto, double) { return sc::ClipReport{}; });
    take_step(norm, norm_state, G, signal, t == shown, [](auto view, double tau) { return sc::clip_norm(view, tau); });
    take_step(spectral, spectral_state, G, signal, t == shown,
              [&](auto view, double tau) { return clipper.clip(view, tau); });
  }

  const sc::ClipReport& report = spectral.report;
  std::printf("Step %zu of %d: signal of rank %zu, spike %.2f. Leading singular values (bars logarithmic).\n",
              shown + 1, kSteps, std::size(kSignal), spike[shown]);
  std::printf("Thresholds, each the EMA of what it saw before: norm %.2f, spectral tau = %.2f.\n\n", norm.report.tau,
              report.tau);
  text_chart::print_bars({{"signal", leading(signal), 32},
                          {"gradient", leading(none.shown), 31},
                          {"norm clipped", leading(norm.shown), 33},
                          {"spectrally clipped", leading(spectral.shown), 36}},
                         kNoise / 2, text_chart::terminal_style(options.no_color));
  std::printf("\n  error to the signal, relative         median    90 %%   worst   cosine\n");
  print_rows("no clipping", none, spike);
  print_rows("norm clipping", norm, spike);
  print_rows("spectral clipping", spectral, spike);
  std::printf("\n");
  print_words(none, norm, spectral, spike);
  std::printf("Certificate of that step: %lld lowered to %.3f, nothing left above %.3f (%s), passes: %d.\n",
              static_cast<long long>(report.clipped), report.tau, report.sigma_bound, sc::to_string(report.bound_kind),
              report.passes);
  std::printf("Time per %d x %d clip: norm %.3f ms, spectral %.3f ms (median, one thread, %s).\n", kRows, kCols,
              1e3 * quantile(norm.seconds, 0.5), 1e3 * quantile(spectral.seconds, 0.5), sc::simd_target());
}

}  // namespace

int main(int argc, char** argv) try {
  run(parse(argc, argv));
  return EXIT_SUCCESS;
} catch (const std::exception& error) {
  std::fprintf(stderr, "example_demo: %s\n", error.what());
  return EXIT_FAILURE;
}
