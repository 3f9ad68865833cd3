// SPDX-License-Identifier: Apache-2.0
// Where clip_grad_norm_ stood: the same call, with singular values clamped at a constant instead of one norm.
// Stateless.
#pragma once

#include <ATen/core/Tensor.h>

#include <initializer_list>
#include <vector>

#include "spectralclip/torch/clipper.h"

namespace spectralclip::torch {

struct ClipGradOptions {
  ClipOptions clip = {};  // auto; exhausted = auto finishes whatever it costs, on a device by looking once, which waits
  Backend backend = Backend::automatic;
};

// Clips the gradients of the parameters in place: matrices (and tensors of more axes, as (out, rest)) by singular
// values, vectors by norm, each at max_sigma. Returns the total norm before clipping. Undefined gradients are ignored;
// without any the result is 0. error_if_nonfinite throws before anything is touched. *worst, if given, is the status of
// the gradient that fared worst (worse() below): ok means that nothing above max_sigma (1 + margin) is left.
double clip_grad_spectral_(const std::vector<at::Tensor>& parameters, double max_sigma,
                           const ClipGradOptions& options = {}, bool error_if_nonfinite = false,
                           ClipStatus* worst = nullptr);
double clip_grad_spectral_(std::initializer_list<at::Tensor> parameters, double max_sigma,
                           const ClipGradOptions& options = {}, bool error_if_nonfinite = false,
                           ClipStatus* worst = nullptr);
double clip_grad_spectral_(at::Tensor parameter, double max_sigma, const ClipGradOptions& options = {},
                           bool error_if_nonfinite = false, ClipStatus* worst = nullptr);

// The same over gradients themselves; the norm stays on the device of the first. *statuses, if given: a ClipStatus for
// each gradient (int64, on that device), ok for those that are undefined, empty or sparse.
at::Tensor clip_gradients(const std::vector<at::Tensor>& gradients, double max_sigma,
                          const ClipGradOptions& options = {}, bool error_if_nonfinite = false,
                          at::Tensor* statuses = nullptr);

// ok < not_converged < rank_exhausted < out_of_range < factorization_failed < out_of_memory < not_finite.
[[nodiscard]] ClipStatus worse(ClipStatus a, ClipStatus b) noexcept;

// Clamps the singular values of a matrix (m, n) or of each of a batch (…, m, n) in place. Returns the reports as
// numbers: batch x kReportFields in float64 (report_fields.h), one row for a single matrix.
at::Tensor clip_singular_values_(const at::Tensor& G, double tau, const ClipOptions& options = {},
                                 Backend backend = Backend::automatic);

}  // namespace spectralclip::torch
