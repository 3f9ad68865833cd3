// SPDX-License-Identifier: Apache-2.0
// Somebody's program that uses Eigen itself, compiled with flags of its own: matrices that grow, products on
// both sides of calls into the library. Whichever copy of a function the linker keeps, memory that one
// side allocated is freed by the same side.
#include <Eigen/Core>
#include <cmath>
#include <cstdio>

#include "spectralclip/spectralclip.h"

namespace {

// Largest singular value left by the library, by the user's own Eigen.
double clipped_by(spectralclip::Method method, double tau) {
  using RowMajor = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  RowMajor G(80, 80);
  for (Eigen::Index i = 0; i < G.size(); ++i) G.data()[i] = std::sin(static_cast<double>(i * i % 997));
  (void)spectralclip::clip_singular_values(spectralclip::MatrixView<double>(G.data(), G.rows(), G.cols()), tau,
                                           {.method = method});
  Eigen::VectorXd v = Eigen::VectorXd::Ones(G.cols());
  for (int i = 0; i < 300; ++i) v = (G.transpose() * (G * v)).normalized();
  return (G * v).norm();
}

}  // namespace

int main() {
  Eigen::MatrixXd B(1, 1);
  B.resize(41, 60);
  B.setOnes();
  bool right = true;
  for (const auto method : {spectralclip::Method::exact, spectralclip::Method::gram, spectralclip::Method::tracked,
                            spectralclip::Method::newton_schulz}) {
    const double left = clipped_by(method, 2.0);
    right = right && left < 2.0 * 1.002 && left > 1.99;
    B.resize(B.rows() + 7, B.cols() - 3);
    B.setOnes();
    std::printf("%s %.4f, %td entries\n", to_string(method), left, B.size());
  }
  return right ? 0 : 1;
}
