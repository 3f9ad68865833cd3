// SPDX-License-Identifier: Apache-2.0
#include "training/progress.h"

#include <algorithm>
#include <numeric>

#include "clipper/byte_stream.h"
#include "require.h"

namespace spectralclip::lab {
namespace {

constexpr std::array kStageNames = {"forward", "backward", "clip", "optimizer"};

// Of a matrix, by the eigenvalues of the smaller Gram matrix in float64: relative error about 1e-8 at worst.
double sigma_max_of(const at::Tensor& gradient) {
  const at::Tensor matrix = gradient.detach().reshape({gradient.size(0), -1}).to(at::kCPU, at::kDouble);
  const at::Tensor gram = matrix.size(0) < matrix.size(1) ? matrix.mm(matrix.t()) : matrix.t().mm(matrix);
  return std::sqrt(std::max(0.0, at::linalg_eigvalsh(gram).max().item<double>()));
}

}  // namespace

void LossProgress::save(StateWriter& out) const {
  ByteWriter bytes;
  for (const double value : {loss_sum, last_loss, least_loss, best}) bytes.put(value);
  for (const std::int64_t value : {loss_count, evaluations}) bytes.put(value);
  out.put("progress", bytes.bytes());
}

void LossProgress::load(const StateReader& state) {
  const Bytes bytes = state.bytes("progress");
  ByteReader in(bytes);
  for (double* value : {&loss_sum, &last_loss, &least_loss, &best}) *value = in.float64("losses");
  for (std::int64_t* value : {&loss_count, &evaluations}) *value = in.integer<std::int64_t>("counts");
}

void Certificate::count(const StepReport& report) {
  for (const LayerReport& layer : report.layers) {
    if (!layer.has_gradient || layer.treatment != Treatment::spectral) continue;
    ++layer_steps_;
    if (layer.clip.status == ClipStatus::ok) continue;
    ++unsure_;
    ++unsure_by_layer_[layer.name][to_string(layer.clip.status)];
  }
}

void Certificate::check(const StepReport& report, const spectralclip::torch::NamedTensors& parameters, double margin) {
  const at::NoGradGuard no_grad;
  for (const LayerReport& layer : report.layers) {
    const bool sure =
        layer.has_gradient && layer.treatment == Treatment::spectral && layer.clip.status == ClipStatus::ok;
    // A parameter that is several matrices has layers named name[i]: those are left out.
    if (!sure || !std::isfinite(layer.clip.tau) || layer.name.ends_with("]")) continue;
    const at::Tensor& gradient = parameters.at(layer.parameter).second.grad();
    // Above the margin by what rounding of the stored gradient can add: eps of its type times sqrt(larger side).
    const double eps = gradient.scalar_type() == at::kFloat ? 0x1p-23 : 0x1p-8;
    const double slack = eps * std::sqrt(static_cast<double>(std::max(layer.rows, layer.cols)));
    const double excess = (sigma_max_of(gradient) - layer.clip.tau) / std::max(layer.clip.tau, 1e-300);
    const double rounding = slack * layer.clip.norm_before / std::max(layer.clip.tau, 1e-300);
    ++checked_;
    missed_ += excess > margin + rounding;
    largest_excess_ = std::max(largest_excess_, excess);
  }
}

nlohmann::ordered_json Certificate::json() const {
  nlohmann::ordered_json by_layer = nlohmann::ordered_json::object();
  for (const auto& [layer, reasons] : unsure_by_layer_)
    for (const auto& [reason, steps] : reasons) by_layer[layer][reason] = steps;
  return {{"layer_steps", layer_steps_}, {"unsure", unsure_}, {"unsure_by_layer", by_layer},
          {"checked", checked_},         {"missed", missed_}, {"largest_excess", largest_excess_}};
}

void Certificate::save(StateWriter& out) const {
  const std::string text = json().dump();
  out.put("certificate", {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()});
}

void Certificate::load(const StateReader& in) {
  const Bytes bytes = in.bytes("certificate");
  const auto json = nlohmann::json::parse(bytes.begin(), bytes.end(), nullptr, false);
  try {
    layer_steps_ = json.at("layer_steps"), unsure_ = json.at("unsure");
    checked_ = json.at("checked"), missed_ = json.at("missed"), largest_excess_ = json.at("largest_excess");
    unsure_by_layer_ = json.at("unsure_by_layer").get<decltype(unsure_by_layer_)>();
  } catch (const nlohmann::json::exception& error) {
    throw StateFileError(std::string("section \"certificate\" of the checkpoint: ") + error.what());
  }
}

void StageTimes::add(TrainStage stage, std::chrono::steady_clock::time_point start) {
  wait_for(device_);
  seconds_[static_cast<std::size_t>(stage)] +=
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double StageTimes::total() const noexcept { return std::accumulate(seconds_.begin(), seconds_.end(), 0.0); }

nlohmann::ordered_json StageTimes::json() const {
  nlohmann::ordered_json json{{"train_seconds", total()}};
  for (std::size_t i = 0; i < seconds_.size(); ++i)
    json[std::string(kStageNames[i]) + "_share"] = total() > 0 ? seconds_[i] / total() : 0.0;
  return json;
}

void StageTimes::save(StateWriter& out) const {
  ByteWriter bytes;
  for (const double value : seconds_) bytes.put(value);
  out.put("timing", bytes.bytes());
}

void StageTimes::load(const StateReader& state) {
  const Bytes bytes = state.bytes("timing");
  ByteReader in(bytes);
  for (double& value : seconds_) value = in.float64("timing");
}

}  // namespace spectralclip::lab
