// SPDX-License-Identifier: Apache-2.0
#include "clipper/hints.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <unordered_set>

#include "require.h"

namespace spectralclip {
namespace {

// The last axis of a convolution is the width of its kernel; of a stack, the columns of a matrix. No kernel is so wide.
constexpr std::int64_t kWiderThanKernels = 32;

bool is_whole(const Layer& layer, const LayerReport& report) {
  return layer.batch_axes == 0 && report.treatment == Treatment::spectral;
}

bool looks_like_matrices(const Parameter& parameter) {
  const auto& shape = parameter.shape;
  return shape.size() >= 3 && shape.front() > 1 && shape[shape.size() - 2] > 1 && shape.back() >= kWiderThanKernels;
}

std::string stack_of_matrices(const LayerReport& report, const Parameter& parameter) {
  return detail::concat("a tensor of ", parameter.shape.size(), " axes taken as one ", report.rows, " x ", report.cols,
                        " matrix; if it is a stack of ", parameter.shape.front(),
                        ", give it a rule with batch_axes = 1");
}

std::string stack_of_vectors(const LayerReport& report) {
  return detail::concat("taken as one ", report.rows, " x ", report.cols, " matrix beside stacks of ", report.rows,
                        "; if it is a stack of vectors, give it a rule with batch_axes = 1 and treatment norm");
}

}  // namespace

void add_hints(LayerSet& added, const std::vector<Parameter>& parameters, std::size_t first) {
  std::unordered_set<std::int64_t> stacks;  // how many layers the model's stacks have
  for (std::size_t i = 0; i < added.layers.size(); ++i) {
    const Layer& layer = added.layers[i];
    const Parameter& parameter = parameters[layer.parameter - first];
    if (!looks_like_matrices(parameter)) continue;
    if (layer.batch_axes > 0 || is_whole(layer, added.reports[i])) stacks.insert(parameter.shape.front());
    if (is_whole(layer, added.reports[i])) added.reports[i].hint = stack_of_matrices(added.reports[i], parameter);
  }
  for (std::size_t i = 0; i < added.layers.size(); ++i) {
    const Parameter& parameter = parameters[added.layers[i].parameter - first];
    if (parameter.shape.size() == 2 && is_whole(added.layers[i], added.reports[i]) &&
        stacks.contains(parameter.shape[0]))
      added.reports[i].hint = stack_of_vectors(added.reports[i]);
  }
}

}  // namespace spectralclip
