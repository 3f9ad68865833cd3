// SPDX-License-Identifier: Apache-2.0
// Muon's orthogonalisation: singular values to about 1 by a few products. Not the polar factor: the polynomial trades
// convergence for steepness at 0, and leaves them between 0.7 and 1.2.
#pragma once

#include <ATen/ATen.h>

#include "spectralclip/torch/muon.h"

namespace spectralclip::torch {

// What the products work in; bfloat16 becomes float32, with one warning, where the processor cannot multiply it.
[[nodiscard]] at::ScalarType orthogonalize_type(const at::Tensor& tensor, OrthogonalizeType type);

// M: m x n, not written. Returns m x n in orthogonalize_type(). sigma / max(||M||_F, eps) goes through
// x -> a x + b x^3 + c x^5, ns_steps times. Cost, k = min(m, n): ns_steps (4 m n k + 2 k^3) flops.
[[nodiscard]] at::Tensor newton_schulz(const at::Tensor& M, const MuonOptions& options);

}  // namespace spectralclip::torch
