// SPDX-License-Identifier: Apache-2.0
#include "support/spectra.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>

namespace spectralclip::testing {
namespace {

using Eigen::ArrayXd;
using Eigen::Index;
using Eigen::VectorXd;

ArrayXd place(Index r) { return ArrayXd::LinSpaced(r, 0, static_cast<double>(r - 1)); }

VectorXd flat(Index r) { return VectorXd::Ones(r); }
VectorXd zero(Index r) { return VectorXd::Zero(r); }
VectorXd slow_decay(Index r) { return (1 + place(r)).rsqrt(); }
VectorXd fast_decay(Index r) { return (place(r) * std::log(0.6)).exp(); }

VectorXd spiked(Index r) {
  VectorXd sigma = 0.9 * (place(r) * (-1.0 / static_cast<double>(r))).exp();
  sigma[0] = 300;
  if (r > 1) sigma[1] = 7;
  return sigma;
}

VectorXd rank_deficient(Index r) {
  VectorXd sigma = 2 * (place(r) * std::log(0.8)).exp();
  sigma.tail(r - (r + 2) / 3).setZero();
  return sigma;
}

VectorXd tied(Index r) {  // a few well above tau = 1, a few exactly at it, the rest clearly below
  VectorXd sigma = VectorXd::Constant(r, 0.25);
  sigma.head(std::min<Index>(r, 6)).setConstant(1);
  sigma.head(std::min<Index>(r, 3)).setConstant(2);
  return sigma;
}

}  // namespace

const std::vector<Spectrum>& all_spectra() {
  static const std::vector<Spectrum> spectra = {
      {"flat", 0.5, flat},
      {"flat, tau above", 1.5, flat},
      {"slow decay", 0.4, slow_decay},
      {"slow decay, tau above", 1.01, slow_decay},
      {"slow decay, tau far below", 1e-3, slow_decay},
      {"fast decay", 0.3, fast_decay},
      {"spiked", 1, spiked},
      {"rank deficient", 1.5, rank_deficient},
      {"tied at tau", 1, tied},
      {"zero", 1, zero},
  };
  return spectra;
}

const Spectrum& spectrum_named(std::string_view name) {
  for (const Spectrum& spectrum : all_spectra()) {
    if (spectrum.name == name) return spectrum;
  }
  throw std::invalid_argument("no spectrum called " + std::string(name));
}

}  // namespace spectralclip::testing
