// SPDX-License-Identifier: Apache-2.0
// What `gram` decides from a Gram matrix alone, whoever added it up: which directions go, and by how much.
#pragma once

#include <Eigen/Core>

#include "clip/dense_report.h"
#include "spectralclip/report.h"

namespace spectralclip {

struct GramPlan {
  bool suited = false;  // else the factorisation failed, or squares cannot tell values near tau (gram_ratio_limit)
  ClipReport report;
  Eigen::MatrixXd Q;       // r x clipped: the directions above tau; none for tau = 0 …
  Eigen::VectorXd weight;  // … and the share of each that goes, 1 - tau / sigma
};

// A: lower triangle of the Gram matrix of problem.G in scaled units, not zero and finite.
[[nodiscard]] GramPlan plan_gram(const DenseProblem& problem, Eigen::MatrixXd A);

}  // namespace spectralclip
