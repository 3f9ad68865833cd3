// SPDX-License-Identifier: Apache-2.0
// The header of a safetensors file, apart from files: bytes in, views out.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "data/tensor_view.h"

namespace spectralclip::lab::data {

struct SafetensorsHeader {
  std::vector<TensorView> tensors;              // in the order of their data
  std::map<std::string, std::string> metadata;  // of "__metadata__"
};

// Views of `bytes`; `name` is for messages. Refused: a header longer than the file (or 100 MB), no JSON object, a name
// twice, an unknown field or type, a shape that does not fit its bytes, holes, overlaps, bytes left over.
[[nodiscard]] SafetensorsHeader parse_safetensors(std::span<const std::byte> bytes, const std::string& name);

// The length and the JSON, padded with spaces to a multiple of 8. Throws InvalidArgument unless names are unique and
// bytes fit type and shape.
[[nodiscard]] std::string safetensors_header(std::span<const TensorView> tensors,
                                             const std::map<std::string, std::string>& metadata);

}  // namespace spectralclip::lab::data
