// SPDX-License-Identifier: Apache-2.0
// See newton_schulz.h. The products are those of torch.optim.Muon, in its order, so that bfloat16 work rounds alike.
#include "optim/newton_schulz.h"

#include "spectralclip/torch/sixteen_bit.h"

namespace spectralclip::torch {

namespace {

// A step must not end in the middle because of the processor it runs on.
at::ScalarType bfloat16_if_possible(const at::Tensor& tensor) {
  if (!tensor.is_cpu() || sixteen_bit_failure().empty()) return at::kBFloat16;
  TORCH_WARN_ONCE(
      "Muon: bfloat16 products do not work on this processor (", sixteen_bit_failure(),
      "), float32 takes their place; ONEDNN_MAX_CPU_ISA=AVX512_CORE_FP16 may help, `spectralclip doctor` says");
  return at::kFloat;
}

}  // namespace

at::ScalarType orthogonalize_type(const at::Tensor& tensor, OrthogonalizeType type) {
  if (type == OrthogonalizeType::float32) return at::kFloat;
  if (type == OrthogonalizeType::bfloat16) return bfloat16_if_possible(tensor);
  if (tensor.scalar_type() == at::kDouble) return at::kDouble;
  return tensor.is_cpu() ? at::kFloat : at::kBFloat16;
}

at::Tensor newton_schulz(const at::Tensor& M, const MuonOptions& options) {
  const auto [a, b, c] = options.ns_coefficients();
  const bool tall = M.size(0) > M.size(1);
  at::Tensor X = (tall ? M.t() : M).to(orthogonalize_type(M, options.ns_type()));  // k x max(m, n)
  X = X / at::linalg_vector_norm(X).clamp_min_(options.eps());
  for (std::int64_t step = 0; step < options.ns_steps(); ++step) {
    const at::Tensor A = at::mm(X, X.t());                             // k x k
    const at::Tensor B = at::addmm(A, A, A, /*beta=*/b, /*alpha=*/c);  // b A + c A^2
    X = at::addmm(X, B, X, /*beta=*/a);                                // a X + B X
  }
  return tall ? X.t() : X;
}

}  // namespace spectralclip::torch
