// SPDX-License-Identifier: Apache-2.0
// Run by mpirun on any number of ranks. Each has its rows (or columns) of a few layers; what they leave together is
// what one process leaves, thresholds are equal on all, and what travels is what the formula says. Exits 1 with a line
// for each failure.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <string>
#include <vector>

#include "spectralclip/mpi.h"
#include "spectralclip/spectralclip.h"

namespace spectralclip {
namespace {

int failures = 0;
void expect(bool holds, const std::string& text, int rank) {
  if (holds) return;
  ++failures;
  std::fprintf(stderr, "rank %d: %s\n", rank, text.c_str());
}

// A number in (-1, 1) for an address: every rank can make any entry.
double draw(std::uint64_t a, std::uint64_t b, std::uint64_t c) {
  std::uint64_t x = a * 0x9e3779b97f4a7c15ULL + b * 0xbf58476d1ce4e5b9ULL + c * 0x94d049bb133111ebULL + 1;
  for (int i = 0; i < 3; ++i) x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  return static_cast<double>(x >> 11) * 0x1p-52 - 1;
}

struct Layer {
  std::string name;
  std::int64_t rows, cols;
  int axis;
};
const std::vector<Layer> kLayers = {{"attn.weight", 192, 128, 0},
                                    {"mlp.weight", 96, 200, 0},
                                    {"out.weight", 120, 144, 1},
                                    {"few.weight", 3, 64, 0},
                                    {"norm.bias", 1, 50, 0}};

double entry(const Layer& layer, int step, std::int64_t i, std::int64_t j) {
  const auto at = static_cast<std::uint64_t>(i * layer.cols + j);
  const double noise = draw(layer.name.size() * 100 + static_cast<std::uint64_t>(step), at, 7);
  const double x = static_cast<double>(i), y = static_cast<double>(j);
  const double drift = std::sin(0.1 * x + 0.05 * step) * std::cos(0.2 * y);
  const double spike = step % 3 == 2 ? 6 * std::cos(1.3 * x + step) * std::sin(2.1 * y) : 0.0;
  return 0.1 * noise + drift + spike;
}

struct Piece {
  std::int64_t first, count;
};
Piece piece_of(std::int64_t whole, int rank, int ranks) {  // uneven; more ranks than rows leave some without
  const std::int64_t each = (whole + ranks - 1) / ranks;
  const std::int64_t first = std::min(whole, rank * each);
  return {first, std::min(whole, first + each) - first};
}

std::vector<Parameter> parameters(int rank, int ranks, bool split) {
  std::vector<Parameter> list;
  for (const Layer& layer : kLayers) {
    // Split by columns, a layer is worked on as its transpose: that is what one process is given.
    const bool vector = layer.rows == 1;
    const bool transposed = !split && layer.axis == 1;
    Parameter p{layer.name, vector       ? std::vector{layer.cols}
                            : transposed ? std::vector{layer.cols, layer.rows}
                                         : std::vector{layer.rows, layer.cols}};
    const std::int64_t whole = vector || layer.axis == 1 ? layer.cols : layer.rows;
    if (split) p.shard = {.axis = layer.axis, .extent = piece_of(whole, rank, ranks).count};
    list.push_back(p);
  }
  return list;
}

// The local window of a layer, packed.
std::vector<float> local(const Layer& layer, int step, int rank, int ranks) {
  const bool by_columns = layer.axis == 1 || layer.rows == 1;
  const Piece piece = piece_of(by_columns ? layer.cols : layer.rows, rank, ranks);
  std::vector<float> values;
  for (std::int64_t i = 0; i < layer.rows; ++i)
    for (std::int64_t j = 0; j < layer.cols; ++j) {
      const std::int64_t at = by_columns ? j : i;
      if (at >= piece.first && at < piece.first + piece.count)
        values.push_back(static_cast<float>(entry(layer, step, i, j)));
    }
  return values;
}

std::vector<float> whole(const Layer& layer, int step) {
  std::vector<float> values;
  const bool transposed = layer.axis == 1;
  for (std::int64_t i = 0; i < (transposed ? layer.cols : layer.rows); ++i)
    for (std::int64_t j = 0; j < (transposed ? layer.rows : layer.cols); ++j)
      values.push_back(static_cast<float>(transposed ? entry(layer, step, j, i) : entry(layer, step, i, j)));
  return values;
}

void equal_to_one_process(MpiReduction& reduction, int steps) {
  const int rank = reduction.rank(), ranks = reduction.ranks();
  Clipper alone(parameters(0, 1, false)), mine(parameters(rank, ranks, true));
  int clipped = 0;
  double formula = 0;
  const std::int64_t bytes_before = reduction.bytes();
  for (int step = 0; step < steps; ++step) {
    std::vector<std::vector<float>> full, part;
    std::vector<Gradient> full_gradients, part_gradients;
    static float nothing;
    for (const Layer& layer : kLayers) {
      full.push_back(whole(layer, step));
      part.push_back(local(layer, step, rank, ranks));
    }
    for (std::size_t i = 0; i < kLayers.size(); ++i) {
      full_gradients.push_back({full[i].data(), ScalarType::float32, 0});
      part_gradients.push_back({part[i].empty() ? &nothing : part[i].data(), ScalarType::float32, 0});
    }
    const StepReport one = alone.step(full_gradients, serial_executor());
    const StepReport all = mine.step(part_gradients, reduction, serial_executor());
    clipped += static_cast<int>(all.layers_clipped);
    expect(one.layers_clipped == all.layers_clipped, "step " + std::to_string(step) + ": layers clipped differ", rank);
    for (std::size_t l = 0; l < kLayers.size(); ++l) {
      const Layer& layer = kLayers[l];
      const ClipReport& a = one.layers[l].clip;
      const ClipReport& b = all.layers[l].clip;
      const std::string where = layer.name + ", step " + std::to_string(step) + ": ";
      constexpr double kNear = 64 * 0x1p-23;
      expect(a.status == b.status && a.clipped == b.clipped, where + "outcome", rank);
      expect(std::abs(a.sigma_max - b.sigma_max) <= kNear * a.sigma_max, where + "sigma_max", rank);
      expect(a.tau == b.tau || std::abs(a.tau - b.tau) <= kNear * a.tau, where + "tau", rank);
      const bool by_columns = layer.axis == 1 || layer.rows == 1;
      const Piece piece = piece_of(by_columns ? layer.cols : layer.rows, rank, ranks);
      double error = 0, size = 0;
      std::size_t at = 0;
      for (std::int64_t i = 0; i < layer.rows; ++i)
        for (std::int64_t j = 0; j < layer.cols; ++j) {
          const float expected =
              full[l][static_cast<std::size_t>(layer.axis == 1 ? j * layer.rows + i : i * layer.cols + j)];
          size += static_cast<double>(expected) * expected;
          const std::int64_t place = by_columns ? j : i;
          if (place < piece.first || place >= piece.first + piece.count) continue;
          const double off = part[l][at++] - expected;
          error += off * off;
        }
      expect(std::sqrt(error) <= 512 * 0x1p-23 * std::sqrt(size),
             where + "gradient off by " + std::to_string(std::sqrt(error / size)), rank);
      // A pass over k columns of n: 4 k n and 8 (1 + k^2) bytes; at most as many columns as the widest basis.
      const double n = static_cast<double>(layer.axis == 1 ? layer.rows : layer.cols);
      formula += b.passes * (4.0 * 24 * n + 8 * (1 + 24 * 24)) + 8 * n * n;
    }
  }
  expect(clipped > steps / 3, "nothing was clipped", rank);
  expect(static_cast<double>(reduction.bytes() - bytes_before) <= formula, "more bytes than the formula", rank);
  // Thresholds and subspaces are the same bytes everywhere.
  std::vector<std::uint8_t> state = mine.serialize();
  std::vector<std::uint8_t> first = state;
  int length = static_cast<int>(first.size());
  MPI_Bcast(&length, 1, MPI_INT, 0, MPI_COMM_WORLD);
  expect(length == static_cast<int>(state.size()), "states differ in length", rank);
  first.resize(static_cast<std::size_t>(length));
  MPI_Bcast(first.data(), length, MPI_BYTE, 0, MPI_COMM_WORLD);
  expect(first == state, "states differ", rank);
}

void a_nan_on_the_last_rank(MpiReduction& reduction) {
  const int rank = reduction.rank(), ranks = reduction.ranks();
  Clipper mine(parameters(rank, ranks, true));
  std::vector<std::vector<float>> part;
  std::vector<Gradient> gradients;
  static float nothing;
  for (const Layer& layer : kLayers) part.push_back(local(layer, 2, rank, ranks));
  if (piece_of(kLayers[0].rows, ranks - 1, ranks).count > 0 && rank == ranks - 1)
    part[0][5] = std::numeric_limits<float>::quiet_NaN();
  for (auto& p : part) gradients.push_back({p.empty() ? &nothing : p.data(), ScalarType::float32, 0});
  const StepReport report = mine.step(gradients, reduction, serial_executor());
  expect(report.layers[0].clip.status == ClipStatus::not_finite && report.layers_not_finite == 1, "NaN was not seen",
         rank);
}

void who_has_no_gradient_is_named(MpiReduction& reduction) {
  const int rank = reduction.rank(), ranks = reduction.ranks();
  if (ranks == 1) return;
  Clipper mine(parameters(rank, ranks, true));
  std::vector<std::vector<float>> part;
  std::vector<Gradient> gradients;
  static float nothing;
  for (const Layer& layer : kLayers) part.push_back(local(layer, 2, rank, ranks));
  const auto before = part;
  for (auto& p : part) gradients.push_back({p.empty() ? &nothing : p.data(), ScalarType::float32, 0});
  if (rank == 1) gradients[1].data = nullptr;
  bool told = false;
  try {
    (void)mine.step(gradients, reduction, serial_executor());
  } catch (const RanksDisagree& error) {
    told = std::string(error.what()).find("mlp.weight") != std::string::npos;
  }
  expect(told, "nobody said who has no gradient", rank);
  expect(before == part, "something was written", rank);
}

}  // namespace
}  // namespace spectralclip

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  {
    spectralclip::MpiReduction reduction(MPI_COMM_WORLD);
    spectralclip::equal_to_one_process(reduction, 12);
    spectralclip::a_nan_on_the_last_rank(reduction);
    spectralclip::who_has_no_gradient_is_named(reduction);
    if (reduction.rank() == 0)
      std::printf("%d ranks: %lld bytes in %lld exchanges\n", reduction.ranks(),
                  static_cast<long long>(reduction.bytes()), static_cast<long long>(reduction.exchanges()));
  }
  int all = 0;
  MPI_Allreduce(&spectralclip::failures, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  MPI_Finalize();
  return all == 0 ? 0 : 1;
}
