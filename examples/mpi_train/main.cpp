// SPDX-License-Identifier: Apache-2.0
// Least squares Y = W X over MPI: every rank holds some rows of W, of its gradient and of Y, and all of X. Heavy-tailed
// noise of rank one falls on the whole gradient; each rank sees its rows of it. The clipper takes the spike out where
// it lies: nobody ever has the whole matrix.   mpirun -n 2 mpi_train
#include <cmath>
#include <cstdio>
#include <random>
#include <vector>

#include "spectralclip/mpi.h"
#include "spectralclip/spectralclip.h"

namespace {

constexpr std::int64_t kRows = 96, kCols = 64, kBatch = 32;
constexpr int kSteps = 200;
constexpr double kRate = 0.2;

// The same numbers on all ranks for the same seed.
std::vector<double> normals(unsigned seed, std::int64_t count) {
  std::mt19937_64 engine(seed);
  std::normal_distribution<double> normal;
  std::vector<double> values(static_cast<std::size_t>(count));
  for (double& x : values) x = normal(engine);
  return values;
}

double train(spectralclip::MpiReduction& reduction, bool clip) {
  const std::int64_t first = kRows * reduction.rank() / reduction.ranks();
  const std::int64_t here = kRows * (reduction.rank() + 1) / reduction.ranks() - first;
  spectralclip::Parameter weight{"weight", {kRows, kCols}};
  weight.shard = {.axis = 0, .extent = here};
  spectralclip::ClipperOptions options;
  options.threshold = {.kind = spectralclip::ThresholdKind::quantile, .quantile = 0.5};
  spectralclip::Clipper clipper({weight}, options);

  const std::vector<double> truth = normals(1, kRows * kCols);
  std::vector<double> W(static_cast<std::size_t>(here * kCols), 0.0);
  std::vector<double> G(W.size());
  double loss = 0;
  for (int step = 0; step < kSteps; ++step) {
    const std::vector<double> X = normals(100U + static_cast<unsigned>(step), kCols * kBatch);
    const std::vector<double> u = normals(5000U + static_cast<unsigned>(step), kRows + kCols + 1);
    const double spike = 0.3 * std::tan(1.5 * std::tanh(u.back()));
    std::fill(G.begin(), G.end(), 0.0);
    double squares = 0;
    for (std::int64_t i = 0; i < here; ++i) {
      for (std::int64_t b = 0; b < kBatch; ++b) {
        double off = 0;
        for (std::int64_t j = 0; j < kCols; ++j)
          off +=
              (W[static_cast<std::size_t>(i * kCols + j)] - truth[static_cast<std::size_t>((first + i) * kCols + j)]) *
              X[static_cast<std::size_t>(j * kBatch + b)];
        squares += off * off / (kBatch * kRows);
        for (std::int64_t j = 0; j < kCols; ++j)
          G[static_cast<std::size_t>(i * kCols + j)] += off * X[static_cast<std::size_t>(j * kBatch + b)] / kBatch;
      }
      for (std::int64_t j = 0; j < kCols; ++j)
        G[static_cast<std::size_t>(i * kCols + j)] +=
            spike * u[static_cast<std::size_t>(first + i)] * u[static_cast<std::size_t>(kRows + j)];
    }
    const spectralclip::Gradient gradient{G.data(), spectralclip::ScalarType::float64, 0};
    if (clip) (void)clipper.step(std::span(&gradient, 1), reduction, spectralclip::serial_executor());
    for (std::size_t i = 0; i < W.size(); ++i) W[i] -= kRate * G[i];
    MPI_Allreduce(&squares, &loss, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  }
  return loss;
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  bool better = false;
  {
    spectralclip::MpiReduction reduction(MPI_COMM_WORLD);
    const double without = train(reduction, false), with = train(reduction, true);
    better = with < without;
    if (reduction.rank() == 0)
      std::printf(
          "%d ranks, %d steps: loss %.4g unclipped, %.4g clipped; %.0f bytes a step exchanged, the gradient has %.0f\n",
          reduction.ranks(), kSteps, without, with, static_cast<double>(reduction.bytes()) / kSteps,
          8.0 * kRows * kCols);
  }
  MPI_Finalize();
  return better ? 0 : 1;
}
