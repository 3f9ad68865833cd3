// SPDX-License-Identifier: Apache-2.0
// From a tensor's shape to a batch of matrices, by the rule's axes: a view of the same packed bytes, never a transpose.
#include <limits>
#include <span>
#include <string>

#include "require.h"
#include "spectralclip/rules.h"

namespace spectralclip {
namespace {

std::string shape_text(std::span<const std::int64_t> shape) {
  std::string text = "(";
  for (const std::int64_t extent : shape) text += (text.size() > 1 ? ", " : "") + std::to_string(extent);
  return text + ")";
}

void require_shape(const Parameter& parameter) {
  std::int64_t entries = 1;
  for (const std::int64_t extent : parameter.shape) {
    SPECTRALCLIP_REQUIRE(extent >= 1, "parameter \"", parameter.name, "\" has shape ", shape_text(parameter.shape),
                         ": every axis must be >= 1");
    SPECTRALCLIP_REQUIRE(extent <= std::numeric_limits<std::int64_t>::max() / entries, "parameter \"", parameter.name,
                         "\" has shape ", shape_text(parameter.shape), ": more entries than int64 counts");
    entries *= extent;
  }
}

// Cannot overflow: require_shape bounds the product of all axes, each >= 1.
std::int64_t product(std::span<const std::int64_t> extents) noexcept {
  std::int64_t entries = 1;
  for (const std::int64_t extent : extents) entries *= extent;
  return entries;
}

}  // namespace

// No axis left for columns means vectors: they become 1 x n rows, which are contiguous, rather than n x 1 columns.
// Their one singular value is the norm either way. A scalar counts as shape (1).
Matricized matricize(const Rule& rule, const Parameter& parameter) {
  require_shape(parameter);
  const std::int64_t one = 1;
  const std::span<const std::int64_t> shape = parameter.shape.empty() ? std::span(&one, 1) : std::span(parameter.shape);
  SPECTRALCLIP_REQUIRE(rule.batch_axes >= 0 && rule.row_axes >= 0, "rule \"", rule.name_pattern,
                       "\": batch_axes = ", rule.batch_axes, " and row_axes = ", rule.row_axes, " must be >= 0");
  const auto batch_axes = static_cast<std::size_t>(rule.batch_axes);
  const auto row_axes = static_cast<std::size_t>(rule.row_axes);
  SPECTRALCLIP_REQUIRE(batch_axes + row_axes <= shape.size(), "rule \"", rule.name_pattern,
                       "\": batch_axes = ", rule.batch_axes, " and row_axes = ", rule.row_axes,
                       " need more axes than parameter \"", parameter.name, "\" of shape ", shape_text(parameter.shape),
                       " has");
  const std::int64_t count = product(shape.first(batch_axes));
  const std::int64_t rows = product(shape.subspan(batch_axes, row_axes));
  if (batch_axes + row_axes == shape.size()) return {.count = count, .rows = 1, .cols = rows};
  return {.count = count, .rows = rows, .cols = product(shape.subspan(batch_axes + row_axes))};
}

}  // namespace spectralclip
