// SPDX-License-Identifier: Apache-2.0
// Types of tensors as the core names them: four that can be clipped, and the type that each is worked in.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>

#include "spectralclip/matrix.h"

namespace spectralclip::torch {

// Which of the core's storage types this is; nothing for a type that cannot be clipped.
[[nodiscard]] std::optional<ScalarType> find_storage_type(at::ScalarType type) noexcept;

// The same for a type that is known to be one; throws InvalidArgument otherwise.
[[nodiscard]] ScalarType storage_type(at::ScalarType type);
// … and throws naming the parameter, whose value or gradient this is.
[[nodiscard]] ScalarType storage_type(const at::Tensor& tensor, const std::string& parameter);

// float64 for float64, float32 for all else.
[[nodiscard]] constexpr at::ScalarType work_type(at::ScalarType type) noexcept {
  return type == at::kDouble ? at::kDouble : at::kFloat;
}

}  // namespace spectralclip::torch
