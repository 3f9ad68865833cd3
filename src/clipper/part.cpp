// SPDX-License-Identifier: Apache-2.0
#include "clipper/part.h"

#include "clip/sharded_clip.h"
#include "require.h"

namespace spectralclip {
namespace {

// Entries of the axes [first, last) but one.
std::int64_t others(const std::vector<std::int64_t>& shape, int first, int last, int axis) noexcept {
  std::int64_t count = 1;
  for (int i = first; i < last; ++i) count *= i == axis ? 1 : shape[static_cast<std::size_t>(i)];
  return count;
}

}  // namespace

Part part_of(const Parameter& parameter, const Rule& rule, const Matricized&) {
  const Shard& shard = parameter.shard;
  if (shard.axis < 0) return {};
  const auto dims = static_cast<int>(parameter.shape.size());
  SPECTRALCLIP_REQUIRE(shard.axis < dims, "parameter \"", parameter.name, "\" has ", dims,
                       " axes and is split along axis ", shard.axis);
  const std::int64_t whole = parameter.shape[static_cast<std::size_t>(shard.axis)];
  SPECTRALCLIP_REQUIRE(
      shard.extent >= 0 && shard.first >= 0 && shard.extent <= whole && shard.first <= whole - shard.extent,
      "parameter \"", parameter.name, "\": a shard of ", shard.extent, " from ", shard.first,
      " does not lie within the ", whole, " of axis ", shard.axis);
  const int batch = rule.batch_axes, rows_end = rule.batch_axes + rule.row_axes;
  if (shard.axis < batch) {
    SPECTRALCLIP_REQUIRE(shard.axis == 0, "parameter \"", parameter.name, "\" is split along axis ", shard.axis,
                         " of its ", batch, " batch axes: only the first may be");
    const std::int64_t inner = others(parameter.shape, 0, batch, 0);
    return {Split::matrices, shard.extent * inner, shard.first * inner, shard.group};
  }
  const bool vectors = rows_end == dims;  // matrices of one row
  if (shard.axis < rows_end) {
    return {vectors ? Split::columns : Split::rows, shard.extent * others(parameter.shape, batch, rows_end, shard.axis),
            0, shard.group};
  }
  return {Split::columns, shard.extent * others(parameter.shape, rows_end, dims, shard.axis), 0, shard.group};
}

void require_shardable(const Part& part, const ClipOptions& clip, const LayerReport& report) {
  const bool by_rows = part.split == Split::rows;
  if ((!by_rows && part.split != Split::columns) || report.treatment != Treatment::spectral) return;
  const std::int64_t split_side = by_rows ? report.rows : report.cols;
  const std::int64_t whole_side = by_rows ? report.cols : report.rows;
  SPECTRALCLIP_REQUIRE(
      can_shard(clip.method, split_side, whole_side), "layer \"", report.name, "\" of ", report.rows, " x ",
      report.cols, " is split by ", by_rows ? "rows" : "columns", " over ranks: method ", to_string(clip.method),
      clip.method == Method::gram ? " needs its smaller side whole on each rank" : " needs the whole matrix",
      "; auto, tracked and sketched do not");
}

}  // namespace spectralclip
