// SPDX-License-Identifier: Apache-2.0
#include "spectralclip/torch/step_report.h"

#include <cmath>
#include <utility>

#include "model/report_source.h"
#include "require.h"

namespace spectralclip::torch {

StepReport::StepReport(at::Tensor norm, std::int64_t number, std::weak_ptr<Source> source)
    : total_norm(std::move(norm)), step(number), source_(std::move(source)) {
  if (const auto clipper = source_.lock()) moment_ = clipper->moment();
}

const std::vector<LayerReport>& StepReport::layers() const {
  if (fetched_) return layers_;
  const auto clipper = source_.lock();
  if (!clipper || clipper->moment() != moment_)
    throw Error(detail::concat("this is the report of step ", step, ", and its clipper ",
                               clipper ? "has gone on" : "is gone",
                               ": read a report before the next step; what was read once stays"));
  const auto layers = clipper->fetched_layers();
  layers_.assign(layers.begin(), layers.end());
  fetched_ = true;
  return layers_;
}

std::vector<std::string> StepReport::clipped() const {
  std::vector<std::string> names;
  for (const LayerReport& layer : layers())
    if (layer.has_gradient && layer.clip.clipped > 0) names.push_back(layer.name);
  return names;
}

std::vector<std::string> StepReport::with_status(ClipStatus status) const {
  std::vector<std::string> names;
  for (const LayerReport& layer : layers())
    if (layer.has_gradient && layer.clip.status == status) names.push_back(layer.name);
  return names;
}

double StepReport::norm_after() const {
  double sum = 0;
  for (const LayerReport& layer : layers())
    if (layer.has_gradient && layer.clip.status != ClipStatus::not_finite)
      sum += layer.clip.norm_after * layer.clip.norm_after;
  return std::sqrt(sum);
}

}  // namespace spectralclip::torch
