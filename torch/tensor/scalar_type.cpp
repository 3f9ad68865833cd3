// SPDX-License-Identifier: Apache-2.0
#include "tensor/scalar_type.h"

#include "require.h"

namespace spectralclip::torch {
namespace {

constexpr const char* kOthersCan = "; float32, float64, bfloat16 and float16 can be clipped";

}  // namespace

std::optional<ScalarType> find_storage_type(at::ScalarType type) noexcept {
  switch (type) {
    case at::kFloat:
      return ScalarType::float32;
    case at::kDouble:
      return ScalarType::float64;
    case at::kBFloat16:
      return ScalarType::bfloat16;
    case at::kHalf:
      return ScalarType::float16;
    default:
      return std::nullopt;
  }
}

ScalarType storage_type(at::ScalarType type) {
  const std::optional<ScalarType> found = find_storage_type(type);
  SPECTRALCLIP_REQUIRE(found, "a tensor of type ", at::toString(type), kOthersCan);
  return *found;
}

ScalarType storage_type(const at::Tensor& tensor, const std::string& parameter) {
  const std::optional<ScalarType> found = find_storage_type(tensor.scalar_type());
  SPECTRALCLIP_REQUIRE(found, "parameter \"", parameter, "\" of type ", at::toString(tensor.scalar_type()), kOthersCan);
  return *found;
}

}  // namespace spectralclip::torch
