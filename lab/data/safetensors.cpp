// SPDX-License-Identifier: Apache-2.0
#include "data/safetensors.h"

#include <algorithm>

#include "data/data_error.h"
#include "spectralclip/settings.h"

namespace spectralclip::lab::data {

Safetensors::Safetensors(const std::string& path) : file_(path), header_(parse_safetensors(file_.bytes(), path)) {
  for (std::size_t i = 0; i < header_.tensors.size(); ++i) places_.emplace(header_.tensors[i].name, i);
}

const TensorView* Safetensors::find(std::string_view name) const noexcept {
  const auto found = places_.find(name);
  return found == places_.end() ? nullptr : &header_.tensors[found->second];
}

const TensorView& Safetensors::require(std::string_view name, std::span<const std::int64_t> shape) const {
  const TensorView* const tensor = find(name);
  if (tensor == nullptr) {
    std::vector<std::string> names;
    for (const TensorView& one : header_.tensors) names.push_back(one.name);
    const std::string near = nearest_name(name, names);
    throw_data_error(path(), " has no tensor \"", name, "\" of shape ", shape_text(shape),
                     near.empty() ? "" : "; nearest is \"" + near + "\"", " (", names.size(), " tensors)");
  }
  if (!std::ranges::equal(tensor->shape, shape))
    throw_data_error(path(), ": tensor \"", name, "\" has shape ", shape_text(tensor->shape), "; ", shape_text(shape),
                     " was expected");
  return *tensor;
}

}  // namespace spectralclip::lab::data
