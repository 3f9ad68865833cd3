// SPDX-License-Identifier: Apache-2.0
// The QR algorithm without vectors is off by about n eps / 2 (0.6 n eps at n = 768), which squaring would turn into
// thousands of eps for singular values near tau. Counting signs of the pivots of T - x I is backward stable entry by
// entry (Kahan 1966; Demmel, Applied Numerical Linear Algebra, section 5.3.4). Eight shifts at a time, to hide the
// latency of the divisions.
#include "factor/sturm.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "constants.h"

namespace spectralclip::factor {
namespace {

using Eigen::Index;
using Eigen::VectorXd;

constexpr Index kLanes = 8;
using Lanes = Eigen::Array<double, kLanes, 1>;

// How many eigenvalues are below x, for each lane.
Lanes count_below(const Tridiagonal& T, const VectorXd& squared_off, const Lanes& x, double tiny) {
  Lanes q = T.diagonal[0] - x;
  Lanes count = (q < 0).cast<double>();
  for (Index i = 1; i < T.diagonal.size(); ++i) {
    q = (q.abs() < tiny).select(-tiny, q);
    q = T.diagonal[i] - x - squared_off[i - 1] / q;
    count += (q < 0).cast<double>();
  }
  return count;
}

}  // namespace

void refine_eigenvalues(const Tridiagonal& T, VectorXd& values) {
  const Index n = values.size();
  const VectorXd squared_off = T.subdiagonal.cwiseAbs2();
  const double norm = T.norm();
  if (!(norm > 0)) return;
  const double reach = 4 * static_cast<double>(n) * kEps * norm;
  const double tiny = kEps * kEps * norm;
  for (Index first = 0; first < n; first += kLanes) {
    const Index used = std::min(kLanes, n - first);
    Lanes middle = Lanes::Constant(values[first]);
    middle.head(used) = values.segment(first, used);
    // The k-th largest eigenvalue is at or above x when at most n - 1 - k of them are below.
    const Lanes allowed = static_cast<double>(n - 1 - first) - Lanes::LinSpaced(kLanes, 0, kLanes - 1);
    Lanes low = middle - reach;
    Lanes high = middle + reach;
    for (double width = 2 * reach; width > kEps * norm / 2; width /= 2) {
      middle = (low + high) / 2;
      const auto above = (count_below(T, squared_off, middle, tiny) <= allowed).eval();
      low = above.select(middle, low);
      high = above.select(high, middle);
    }
    values.segment(first, used) = ((low + high) / 2).head(used);
  }
  std::sort(values.data(), values.data() + n, std::greater<>());
}

}  // namespace spectralclip::factor
