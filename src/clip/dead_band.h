// SPDX-License-Identifier: Apache-2.0
// When a singular value counts as "above tau": only when sigma > tau * (1 + dead_band). A clipped matrix has singular
// values equal to tau up to rounding; the band keeps a second clip from writing it again, whatever the method.
#pragma once

#include <limits>

#include "spectralclip/matrix.h"

namespace spectralclip {

// Spacing of 1 in the storage type: storing rounds by at most half of it.
[[nodiscard]] constexpr double storage_epsilon(ScalarType storage) noexcept {
  switch (storage) {
    case ScalarType::float64:
      return std::numeric_limits<double>::epsilon();
    case ScalarType::bfloat16:
      return 0x1p-7;
    case ScalarType::float16:
      return 0x1p-10;
    case ScalarType::float32:
      break;
  }
  return std::numeric_limits<float>::epsilon();
}

// Spacing of 1 in the type that methods work in: float32 for 16- and 32-bit storage, float64 for float64.
[[nodiscard]] constexpr double work_epsilon(ScalarType storage) noexcept {
  return storage_epsilon(storage == ScalarType::float64 ? ScalarType::float64 : ScalarType::float32);
}

// 32 eps of the work type. Storing a float32 matrix moves its singular values by about eps (rounding errors of
// independent sign), so there are 5 bits to spare. In float64 the factorisations themselves lose
// up to about 100 eps at a few hundred columns (BDCSVD 300 x 300: ||U^T U - I||_F = 170 eps), so the band is 1024 eps,
// 2e-13. Rounding to bfloat16 or float16 can move a singular value by more than the band (about eps of the storage
// type): there a second clip may write once more.
[[nodiscard]] constexpr double dead_band(ScalarType storage) noexcept {
  return (storage == ScalarType::float64 ? 1024 : 32) * work_epsilon(storage);
}

}  // namespace spectralclip
