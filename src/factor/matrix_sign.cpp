// SPDX-License-Identifier: Apache-2.0
// Scaled Newton-Schulz: p(x) = a x (3 - a^2 x^2) / 2 with a^2 = 3 / (1 + l + l^2) maps [l, 1] to [p(l), 1] with the
// largest possible p(l) = p(1), after J. Chen & E. Chow, A stable scaling of Newton-Schulz for improving the sign
// function computation of a Hermitian matrix (Argonne preprint ANL/MCS-P5059-0114, 2014). The lower end l is a number
// we track beside the matrix, so nothing has to be estimated on the way.
// Stability: with l -> 0 the best a tends to sqrt(3), where p(1) = 0: the largest eigenvalues would fall to the level
// of rounding and lose their eigenvectors. kMaxScale keeps p(1) >= 0.1 at a price of 2 % in speed (growth 2.546 a step
// instead of 2.598).
#include "factor/matrix_sign.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "constants.h"

namespace spectralclip::factor {
namespace {

using Eigen::MatrixXd;

constexpr double kMaxScale = 1.6977;  // root of a (3 - a^2) / 2 = 0.1
constexpr int kMaxSteps = 100;        // from l = 1e-38; never reached with the callers' bounds

double best_scale(double l) { return std::min(std::sqrt(3 / (1 + l + l * l)), kMaxScale); }
double image(double a, double x) { return a * x * (3 - a * a * x * x) / 2; }

// The scales of a whole run: until 1 - l is so small that one plain step squares it below rounding.
template <class Step>
void run_scaled(double l, Step step) {
  const double almost_one = 1 - std::sqrt(kEps) / 4;
  for (int i = 0; i < kMaxSteps && l < almost_one; ++i) {
    const double a = best_scale(l);
    step(a);
    l = std::min(image(a, l), image(a, 1.0));
  }
  step(1.0);
}

// a (3 I - a^2 S) / 2
MatrixXd cubic_factor(const MatrixXd& S, double a) {
  MatrixXd P = (-a * a * a / 2) * S;
  P.diagonal().array() += 3 * a / 2;
  return P;
}

MatrixXd symmetric(const MatrixXd& lower) { return lower.selfadjointView<Eigen::Lower>(); }

// X^T X by half the flops of a product.
MatrixXd gram(const MatrixXd& X) {
  MatrixXd S = MatrixXd::Zero(X.cols(), X.cols());
  S.selfadjointView<Eigen::Lower>().rankUpdate(X.transpose());
  return symmetric(S);
}

}  // namespace

// With p = 2^k, B = A^p / tr(A^p) and L = log(tr(A^p)) / p:
//   lambda_max <= tr(A^p)^(1/p) = exp(L), and lambda_max >= (tr(A^2p) / tr(A^p))^(1/p) = exp(L + log ||B||_F^2 / p),
// a weighted mean of the lambda_i^p. Both are within n^(1/p) of lambda_max whatever the gaps; ties are exact in the
// lower one. A rounding of step k enters divided by 2^k, so the result is as accurate as tr(A). n^3 flops a step,
// 5 to 8 steps where there is a gap, kMaxSquarings (2e-7 for n = 1000) where there is none.
EigenvalueBounds bound_largest_eigenvalue(const MatrixXd& A) {
  constexpr int kMaxSquarings = 25;
  constexpr double kWantedGap = 1e-9;
  const double rounding = 4 * kEps * std::sqrt(static_cast<double>(A.rows()));
  double trace = A.trace();
  MatrixXd B = A / trace;
  double L = std::log(trace);
  double low = 0;
  double p = 1;
  for (int k = 0; k <= kMaxSquarings; ++k, p *= 2) {
    const double log_square = std::log(B.squaredNorm());  // <= 0: tr(B) = 1
    low = std::max(low, std::exp(L + log_square / p));
    if (-log_square / p < kWantedGap || k == kMaxSquarings) break;
    B = gram(B);
    B /= B.trace();
    L += log_square / (2 * p);
  }
  return {.low = low, .high = std::max(low, std::exp(L)) * (1 + rounding)};
}

MatrixXd matrix_sign(MatrixXd X, double lower) {
  run_scaled(lower, [&X](double a) {
    const MatrixXd P = cubic_factor(gram(X), a);
    X = (X * P).eval();
    X = ((X + X.transpose()) / 2).eval();  // X P is symmetric but for rounding, which must not accumulate
  });
  return X;
}

// Coupled form (Higham, Functions of Matrices, section 6.7): Y -> M^(1/2), Z -> M^(-1/2), Z Y the square of what the
// sign iteration sees, so its lower end is sqrt(lower).
InverseRoot inverse_square_root(MatrixXd M, double lower) {
  MatrixXd Y = std::move(M);
  MatrixXd Z = MatrixXd::Identity(Y.rows(), Y.rows());
  run_scaled(std::sqrt(lower), [&](double a) {
    const MatrixXd P = cubic_factor(Z * Y, a);
    Y = (Y * P).eval();
    Z = (P * Z).eval();
  });
  const double residual = (Z * Y - MatrixXd::Identity(Y.rows(), Y.rows())).norm();
  return {.Z = (Z + Z.transpose()) / 2, .residual = residual};
}

void polar_inplace(MatrixXd& X, double lower) {
  run_scaled(lower, [&X](double a) { X = (X * cubic_factor(gram(X), a)).eval(); });
}

}  // namespace spectralclip::factor
