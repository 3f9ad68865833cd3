// SPDX-License-Identifier: Apache-2.0
// Inverse iteration (Ipsen, Computing an eigenvector with inverse iteration, SIAM Review 1997), but every new vector is
// orthogonalized against all earlier ones: 4 n flops for each of them, which spares the decision what a cluster is.
#include "factor/tridiagonal_vectors.h"

#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "constants.h"

namespace spectralclip::factor {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

constexpr int kMaxSolves = 6;          // two are enough for separated values
constexpr double kResidualFactor = 4;  // times sqrt(n) eps ||T||; separated values reach 0.3, some ties 5

// LU of T - shift I with row exchanges: U has two superdiagonals. O(n).
class ShiftedSolver {
 public:
  ShiftedSolver(const Tridiagonal& T, double shift, double norm) : shift_(shift), tiny_(kEps * norm) { factor(T); }

  void solve_inplace(VectorXd& x) const {
    const Index n = x.size();
    for (Index i = 0; i + 1 < n; ++i) {
      if (swapped_[static_cast<std::size_t>(i)]) std::swap(x[i], x[i + 1]);
      x[i + 1] -= multiplier_[i] * x[i];
    }
    for (Index i = n - 1; i >= 0; --i) {
      double sum = x[i];
      if (i + 1 < n) sum -= first_[i] * x[i + 1];
      if (i + 2 < n) sum -= second_[i] * x[i + 2];
      x[i] = sum / pivot_[i];
    }
  }

 private:
  [[nodiscard]] double safe(double pivot) const { return std::abs(pivot) < tiny_ ? tiny_ : pivot; }

  void factor(const Tridiagonal& T) {
    const Index n = T.diagonal.size();
    pivot_ = T.diagonal.array() - shift_;
    first_ = VectorXd::Zero(n);
    second_ = VectorXd::Zero(n);
    multiplier_ = VectorXd::Zero(n);
    swapped_.assign(static_cast<std::size_t>(n), false);
    if (n > 1) first_.head(n - 1) = T.subdiagonal;
    for (Index i = 0; i + 1 < n; ++i) eliminate(i, T.subdiagonal[i]);
    pivot_[n - 1] = safe(pivot_[n - 1]);
  }

  // Row i is (pivot, first, 0), row i + 1 is (below, pivot, first).
  void eliminate(Index i, double below) {
    if (std::abs(below) > std::abs(pivot_[i])) {
      swapped_[static_cast<std::size_t>(i)] = true;
      std::swap(pivot_[i], below);
      std::swap(first_[i], pivot_[i + 1]);
      std::swap(second_[i], first_[i + 1]);
    }
    pivot_[i] = safe(pivot_[i]);
    multiplier_[i] = below / pivot_[i];
    pivot_[i + 1] -= multiplier_[i] * first_[i];
    first_[i + 1] -= multiplier_[i] * second_[i];
  }

  double shift_;
  double tiny_;
  VectorXd pivot_, first_, second_, multiplier_;
  std::vector<bool> swapped_;
};

// Fixed pseudo-random start (splitmix64): a start orthogonal to the wanted vector has probability zero, and the same
// matrix always gives the same bits.
void fill_start(VectorXd& x, std::uint64_t seed) {
  std::uint64_t counter = seed << 32;
  for (double& entry : x) {
    std::uint64_t z = (counter += 0x9e3779b97f4a7c15ULL);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    entry = std::ldexp(static_cast<double>((z ^ (z >> 31)) >> 11), -52) - 1;
  }
  x.normalize();
}

// x becomes a unit vector orthogonal to the first `done` columns of S; a pass that took more than 1 % of its length
// is repeated, lest its rounding add up over many ties (Daniel, Gragg, Kaufman & Stewart 1976). False when nothing of x
// is left.
bool orthonormalize(VectorXd& x, const MatrixXd& S, Index done) {
  x.normalize();
  for (int pass = 0; pass < 4; ++pass) {
    if (done > 0) x.noalias() -= S.leftCols(done) * (S.leftCols(done).transpose() * x).eval();
    const double left = x.norm();
    if (!(left > 0) || !std::isfinite(left)) return false;
    x /= left;
    if (left > 0.99) return true;
  }
  return false;
}

double residual(const Tridiagonal& T, double lambda, const VectorXd& x) {
  const Index n = x.size();
  VectorXd r = (T.diagonal.array() - lambda) * x.array();
  if (n > 1) {
    r.head(n - 1).array() += T.subdiagonal.array() * x.tail(n - 1).array();
    r.tail(n - 1).array() += T.subdiagonal.array() * x.head(n - 1).array();
  }
  return r.norm();
}

// The first solve only finds the direction; from the second on x is kept orthogonal to the vectors before it.
bool find_vector(const Tridiagonal& T, double lambda, double norm, MatrixXd& S, Index done) {
  const ShiftedSolver solver(T, lambda, norm);
  const double limit = kResidualFactor * std::sqrt(static_cast<double>(S.rows())) * kEps * norm;
  VectorXd x(S.rows());
  fill_start(x, static_cast<std::uint64_t>(done + 1));
  solver.solve_inplace(x);
  x.normalize();
  for (int solve = 1; solve < kMaxSolves; ++solve) {
    solver.solve_inplace(x);
    if (!orthonormalize(x, S, done)) return false;
    if (residual(T, lambda, x) <= limit) {
      S.col(done) = x;
      return true;
    }
  }
  return false;
}

}  // namespace

MatrixXd tridiagonal_vectors(const Tridiagonal& T, const VectorXd& values) {
  const double norm = T.norm();
  MatrixXd S(T.diagonal.size(), values.size());
  for (Index j = 0; j < values.size(); ++j) {
    if (!find_vector(T, values[j], norm, S, j)) return {};
  }
  return S;
}

}  // namespace spectralclip::factor
