// SPDX-License-Identifier: Apache-2.0
// Terms of trace regression as matrices, and their clip by a full SVD, for its tests.
#pragma once

#include <Eigen/SVD>
#include <cstdint>

#include "studies/trace_problem.h"

namespace spectralclip::lab {

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

inline Matrix matrix_of(const TraceProblem& problem, std::int64_t i) {
  return Eigen::Map<const Matrix>(problem.matrix(i).data(), problem.n, problem.n);
}

inline Matrix clipped_by_svd(const Matrix& G, double tau) {
  const Eigen::JacobiSVD<Matrix> svd(G, Eigen::ComputeFullU | Eigen::ComputeFullV);
  return svd.matrixU() * svd.singularValues().cwiseMin(tau).asDiagonal() * svd.matrixV().transpose();
}

inline double sigma_max_of(const Matrix& G) { return Eigen::JacobiSVD<Matrix>(G).singularValues()[0]; }

}  // namespace spectralclip::lab
