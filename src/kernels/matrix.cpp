// SPDX-License-Identifier: Apache-2.0
// The checks a borrowed window must pass before any kernel sees it, and the names of the storage types.
#include "spectralclip/matrix.h"

#include <limits>

#include "require.h"

namespace spectralclip {

const char* to_string(ScalarType type) noexcept {
  switch (type) {
    case ScalarType::float32:
      return "float32";
    case ScalarType::float64:
      return "float64";
    case ScalarType::bfloat16:
      return "bfloat16";
    case ScalarType::float16:
      return "float16";
  }
  return "unknown";
}

void validate(const AnyMatrix& G) {
  SPECTRALCLIP_REQUIRE(G.type <= ScalarType::float16, "scalar type = ", static_cast<int>(G.type),
                       " is none of float32 (0), float64 (1), bfloat16 (2), float16 (3)");
  SPECTRALCLIP_REQUIRE(G.rows >= 1 && G.cols >= 1, "matrix of ", G.rows, " x ", G.cols,
                       " entries: both dimensions must be >= 1");
  SPECTRALCLIP_REQUIRE(G.row_stride >= G.cols, "row_stride = ", G.row_stride, " must be >= cols = ", G.cols);
  // The end of the last full row, rows * row_stride * bytes, must be addressable; it also bounds rows * cols.
  const std::int64_t most_rows = std::numeric_limits<std::int64_t>::max() / size_of(G.type) / G.row_stride;
  SPECTRALCLIP_REQUIRE(G.rows <= most_rows, "matrix of ", G.rows, " rows at row_stride = ", G.row_stride, " of ",
                       to_string(G.type), " exceeds the address range (at most ", most_rows, " rows)");
  SPECTRALCLIP_REQUIRE(G.data != nullptr, "matrix of ", G.rows, " x ", G.cols, " entries has a null data pointer");
  SPECTRALCLIP_REQUIRE(is_aligned(G.data, G.type), "matrix of ", G.rows, " x ", G.cols, " entries: its address ",
                       G.data, " is not a multiple of the ", size_of(G.type), " bytes of ", to_string(G.type));
}

}  // namespace spectralclip
