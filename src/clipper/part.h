// SPDX-License-Identifier: Apache-2.0
// What of a layer lies on this rank, from the axis along which its parameter is split and the rule that reads the axes.
#pragma once

#include <cstdint>
#include <utility>

#include "spectralclip/clipper.h"

namespace spectralclip {

enum class Split : std::uint8_t {
  none,     // every rank holds all of it
  rows,     // some of the rows …
  columns,  // … or of the columns, of each matrix
  matrices  // whole matrices, [first, first + extent) of the batch: they need nobody else
};

struct Part {
  Split split = Split::none;
  std::int64_t extent = 0;
  std::int64_t first = 0;
  int group = 0;
};

// Throws InvalidArgument on a shard that cannot be one of this parameter.
[[nodiscard]] Part part_of(const Parameter& parameter, const Rule& rule, const Matricized& shape);

// Throws InvalidArgument naming the layer when its method needs more than this rank has.
void require_shardable(const Part& part, const ClipOptions& clip, const LayerReport& report);

// Rows and columns here of a matrix that lies here at least in part.
[[nodiscard]] inline std::pair<std::int64_t, std::int64_t> local_shape(const Part& part,
                                                                       const LayerReport& report) noexcept {
  return {part.split == Split::rows ? part.extent : report.rows,
          part.split == Split::columns ? part.extent : report.cols};
}

}  // namespace spectralclip
