// SPDX-License-Identifier: Apache-2.0
// `gram` on 768 x 3072 against Eigen's divide-and-conquer SVD in double, interleaved; the two must agree.
#pragma once

#include <Eigen/SVD>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "findings.h"
#include "gradients.h"
#include "spectralclip/clip.h"
#include "timing.h"

namespace spectralclip::bench {

// What clipping at tau takes away, from the SVD.
inline Eigen::MatrixXd removed_by_svd(const Eigen::BDCSVD<Eigen::MatrixXd>& svd, double tau) {
  const Eigen::VectorXd over = (svd.singularValues().array() - tau).max(0.0);
  return svd.matrixU() * over.asDiagonal() * svd.matrixV().transpose();
}

inline void run_dense(int rounds, Results& results) {
  Layer layer;
  layer.name = "dense";
  fill_layer(layer, 768, 3072);
  const double tau = (relative_sigma(2) + relative_sigma(3)) / 2;  // three above
  const Eigen::MatrixXd G = layer.master[0].map().cast<double>();
  Series gram{"gram, 768 x 3072", 1}, full{"full SVD by Eigen, 768 x 3072", 1};
  Eigen::BDCSVD<Eigen::MatrixXd> svd;
  for (int round = 0; round < rounds; ++round) {
    show_progress("gram against a full SVD: round " + std::to_string(round + 1) + " of " + std::to_string(rounds));
    layer.work[0].map() = layer.master[0].map();
    gram.ms.push_back(milliseconds([&] {
      const ClipReport report = clip_singular_values(layer.work[0].view(), tau, {.method = Method::gram});
      results.require(report.status == ClipStatus::ok && report.clipped == 3, "gram: expected three values clipped");
    }));
    full.ms.push_back(milliseconds([&] { svd.compute(G, Eigen::ComputeThinU | Eigen::ComputeThinV); }));
  }
  const Eigen::MatrixXd expected = removed_by_svd(svd, tau);
  const Eigen::MatrixXd removed = G - layer.work[0].map().cast<double>();
  // The result is stored in float32: half an eps per entry of what is stored, hence eps ||G||_F over all.
  const double allowed = static_cast<double>(std::numeric_limits<float>::epsilon()) * G.norm();
  results.require((removed - expected).norm() <= allowed, "gram: differs from the SVD by more than rounding");
  results.add({"gram on 768 x 3072: speed-up over a full SVD by Eigen (float64)", 1, paired_ratio(full.ms, gram.ms),
               "x", Bar{.limit = 2, .at_least = true},
               number(median(gram.ms)) + " ms against " + number(median(full.ms))});
  results.series.push_back(gram);
  results.series.push_back(full);
}

}  // namespace spectralclip::bench
