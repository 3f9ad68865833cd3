// SPDX-License-Identifier: Apache-2.0
// The truth in float64. Small matrices: Eigen's SVD of what is stored. Large ones are built from known orthonormal
// factors, so that the exact clip is known without an O(n^3) factorisation; storing rounds them, C_tau is 1-Lipschitz,
// and `error` says by how much the truth may be off.
#pragma once

#include <Eigen/Core>
#include <cstdint>
#include <random>

namespace spectralclip::testing {

// rows x cols orthonormal columns (cols <= rows), Haar distributed.
[[nodiscard]] Eigen::MatrixXd random_basis(Eigen::Index rows, Eigen::Index cols, std::mt19937_64& random);

// exact = U diag(sigma) V^T with sigma descending, min(rows, cols) of them.
struct Reference {
  Eigen::MatrixXd exact;
  Eigen::MatrixXd U;
  Eigen::VectorXd sigma;
  Eigen::MatrixXd V;
  double error = 0;  // >= ||exact - the matrix it speaks of||_F

  [[nodiscard]] Eigen::Index above(double level) const { return (sigma.array() > level).count(); }
  [[nodiscard]] Eigen::MatrixXd removed(double tau) const;  // sum of (sigma_i - tau) u_i v_i^T over sigma_i > tau
  [[nodiscard]] Eigen::MatrixXd clipped(double tau) const { return exact - removed(tau); }
  [[nodiscard]] double removed_norm(double tau) const { return (sigma.array() - tau).max(0.0).matrix().norm(); }
  [[nodiscard]] double clipped_norm(double tau) const { return sigma.cwiseMin(tau).norm(); }
};

[[nodiscard]] Reference known_matrix(const Eigen::MatrixXd& U, const Eigen::VectorXd& sigma, const Eigen::MatrixXd& V);
[[nodiscard]] Reference reference_by_svd(const Eigen::MatrixXd& G);
// Of `stored`: by SVD where that is cheap, else `known` with its distance.
[[nodiscard]] Reference reference_of(const Reference& known, const Eigen::MatrixXd& stored);

// The removed part G V diag(1 - tau / sigma) V^T from the eigenvectors of the smaller Gram matrix in float64: good to
// eps (sigma_max / tau)^2 of the removed part, far below what float32 methods are judged by, at a tenth of an SVD.
struct Removed {
  Eigen::MatrixXd part;
  double sigma_max = 0;
  Eigen::Index count = 0;
};
[[nodiscard]] Removed removed_by_gram(const Eigen::MatrixXd& G, double tau);

// Largest singular value: from the eigenvalues of the smaller Gram matrix (relative error about eps).
[[nodiscard]] double sigma_max_of(const Eigen::MatrixXd& G);
// The same, to be compared with `bound`: in extended precision (a hundred times slower) where float64 leaves a doubt.
[[nodiscard]] double sigma_max_beside(const Eigen::MatrixXd& G, double bound);
// Never above the largest singular value; close to it when it stands out. For sides where eigenvalues take seconds.
[[nodiscard]] double sigma_max_from_below(const Eigen::MatrixXd& G, int iterations = 20);

}  // namespace spectralclip::testing
