// SPDX-License-Identifier: Apache-2.0
// The ATen path behind the interface of the core: memory wrapped as tensors, reports read back. Waits for the device,
// which only a test may.
#pragma once

#include <ATen/ATen.h>

#include <Eigen/Core>
#include <array>
#include <vector>

#include "aten/clip.h"
#include "spectralclip/clip.h"
#include "spectralclip/torch/report_fields.h"

namespace spectralclip::testing {

[[nodiscard]] inline at::ScalarType tensor_type(ScalarType type) {
  switch (type) {
    case ScalarType::float64:
      return at::kDouble;
    case ScalarType::bfloat16:
      return at::kBFloat16;
    case ScalarType::float16:
      return at::kHalf;
    case ScalarType::float32:
      break;
  }
  return at::kFloat;
}

[[nodiscard]] inline at::Tensor as_tensor(const AnyMatrix& G) {
  return at::from_blob(G.data, {G.rows, G.cols}, {G.row_stride, 1}, at::dtype(tensor_type(G.type)));
}

[[nodiscard]] inline std::vector<ClipReport> read_reports(const at::Tensor& rows) {
  const at::Tensor values = rows.contiguous();
  std::vector<ClipReport> reports;
  for (std::int64_t i = 0; i < values.size(0); ++i) {
    const double* row = values.const_data_ptr<double>() + i * torch::kReportFields;
    reports.push_back(torch::read_row(std::span<const double, torch::kReportFields>(row, torch::kReportFields)));
  }
  return reports;
}

[[nodiscard]] inline at::Tensor as_tensor(const std::vector<double>& values) {
  return at::tensor(values, at::dtype(at::kDouble));
}

// A matrix with state of its own, as MatrixClipper is in the core.
class AtenClipper {
 public:
  explicit AtenClipper(const ClipOptions& options = {}, std::int64_t id = 0) : options_(options), id_(id) {}

  ClipReport clip(const AnyMatrix& G, double tau) {
    const torch::aten::BatchStream stream{options_.seed, {id_}};
    return read_reports(torch::aten::clip_batch({as_tensor(G)}, as_tensor({tau}), options_, stream, state_))[0];
  }
  [[nodiscard]] const torch::aten::BatchSubspace& state() const { return state_; }

 private:
  ClipOptions options_;
  std::int64_t id_;
  torch::aten::BatchSubspace state_;
};

// A stateless call: it finishes, as that of the core does.
inline ClipReport clip_by_aten(const AnyMatrix& G, double tau, const ClipOptions& options) {
  ClipOptions chosen = options;
  if (chosen.exhausted == Exhausted::automatic) chosen.exhausted = Exhausted::go_exact;
  return AtenClipper(chosen).clip(G, tau);
}

// m x n to and from Eigen, float64.
[[nodiscard]] inline at::Tensor to_tensor(const Eigen::MatrixXd& A) {
  at::Tensor t = at::empty({A.cols(), A.rows()}, at::kDouble);
  Eigen::Map<Eigen::MatrixXd>(t.data_ptr<double>(), A.rows(), A.cols()) = A;
  return t.t();
}
[[nodiscard]] inline Eigen::MatrixXd to_eigen(const at::Tensor& t) {
  const at::Tensor columns = t.to(at::kDouble).t().contiguous();
  return Eigen::Map<const Eigen::MatrixXd>(columns.const_data_ptr<double>(), t.size(0), t.size(1));
}

}  // namespace spectralclip::testing
