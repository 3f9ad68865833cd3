// SPDX-License-Identifier: Apache-2.0
// Named spectra with the threshold that makes them interesting: what every method is measured on.
#pragma once

#include <Eigen/Core>
#include <string_view>
#include <vector>

namespace spectralclip::testing {

struct Spectrum {
  const char* name;
  double tau;
  Eigen::VectorXd (*sigma)(Eigen::Index r);  // r values, largest first, of order 1
};

[[nodiscard]] const std::vector<Spectrum>& all_spectra();
[[nodiscard]] const Spectrum& spectrum_named(std::string_view name);

}  // namespace spectralclip::testing
