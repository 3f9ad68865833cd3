// SPDX-License-Identifier: Apache-2.0
// See gradients.h. Mixed devices and types: norms are taken per tensor where it lives and travel as single numbers.
#include "tensor/gradients.h"

#include <ATen/MemoryOverlap.h>

#include <unordered_set>

#include "require.h"

namespace spectralclip::torch {

NamedTensors distinct_parameters(const NamedTensors& parameters) {
  NamedTensors distinct;
  std::unordered_set<const void*> seen;
  for (const auto& [name, tensor] : parameters) {
    if (tensor.defined() && seen.insert(tensor.unsafeGetTensorImpl()).second) distinct.emplace_back(name, tensor);
  }
  return distinct;
}

std::vector<at::Tensor> distinct_tensors(const NamedTensors& parameters) {
  std::vector<at::Tensor> tensors;
  for (const auto& [name, tensor] : distinct_parameters(parameters)) tensors.push_back(tensor);
  return tensors;
}

void require_values(const std::vector<at::Tensor>& values, const std::vector<at::Tensor>& parameters) {
  SPECTRALCLIP_REQUIRE(values.size() == parameters.size(), values.size(), " values were given for ", parameters.size(),
                       " parameters");
  for (std::size_t i = 0; i < values.size(); ++i) {
    const at::Tensor& value = values[i];
    if (!value.defined()) continue;
    SPECTRALCLIP_REQUIRE(value.sizes() == parameters[i].sizes(), "parameter ", i, " of shape ", parameters[i].sizes(),
                         " has a gradient of shape ", value.sizes());
    SPECTRALCLIP_REQUIRE(value.layout() != at::kStrided || at::has_internal_overlap(value) != at::MemOverlap::Yes,
                         "parameter ", i, " of shape ", parameters[i].sizes(), " has an expanded gradient (strides ",
                         value.strides(), "), whose entries cannot be written one by one; clone() it first");
  }
}

std::vector<at::Tensor> with_gradient(const std::vector<at::Tensor>& parameters) {
  std::vector<at::Tensor> present;
  for (const at::Tensor& parameter : parameters) {
    if (parameter.grad().defined()) present.push_back(parameter);
  }
  return present;
}

std::vector<at::Tensor> gradients_of(const std::vector<at::Tensor>& parameters) {
  std::vector<at::Tensor> gradients;
  for (const at::Tensor& parameter : with_gradient(parameters)) gradients.push_back(parameter.grad());
  return gradients;
}

at::ScalarType promoted_type(const std::vector<at::Tensor>& tensors) {
  at::ScalarType type = at::ScalarType::Undefined;
  for (const at::Tensor& tensor : tensors) {
    if (!tensor.defined()) continue;
    type = type == at::ScalarType::Undefined ? tensor.scalar_type() : at::promote_types(type, tensor.scalar_type());
  }
  return type == at::ScalarType::Undefined ? at::kFloat : c10::toRealValueType(type);
}

at::Tensor norm_of(const at::Tensor& tensor) {
  if (tensor.layout() == at::kStrided) {
    const bool plain = at::isComplexType(tensor.scalar_type()) || tensor.scalar_type() == at::kDouble;
    return at::linalg_vector_norm(plain ? tensor : tensor.to(at::kFloat)).to(at::kDouble);
  }
  const bool coordinates = tensor.layout() == at::kSparse;
  const bool compressed = !coordinates && tensor.layout() != at::kMkldnn;
  const at::Tensor dense = coordinates ? tensor.coalesce().values() : compressed ? tensor.values() : tensor.to_dense();
  return norm_of(dense).to(at::kCPU);
}

std::vector<at::Tensor> norms_of(const std::vector<at::Tensor>& tensors) {
  if (tensors.empty()) return {};
  return at::_foreach_norm(tensors);  // one launch where all share device and type, a loop otherwise
}

at::Tensor combine_norms(const std::vector<at::Tensor>& norms) {
  if (norms.empty()) return at::zeros({});
  std::vector<at::Tensor> near;
  near.reserve(norms.size());
  for (const at::Tensor& norm : norms) near.push_back(norm.to(norms.front().device(), /*non_blocking=*/true));
  return at::linalg_vector_norm(at::stack(near));
}

}  // namespace spectralclip::torch
