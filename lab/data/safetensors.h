// SPDX-License-Identifier: Apache-2.0
// Hugging Face's safetensors: u64 length of the header, a JSON object {name: {dtype, shape, data_offsets}}, the data.
// Reading maps the file and gives views; writing streams and replaces the old file at the end.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/mapped_file.h"
#include "data/safetensors_header.h"
#include "data/tensor_view.h"

namespace spectralclip::lab::data {

class Safetensors {
 public:
  explicit Safetensors(const std::string& path);

  [[nodiscard]] const std::vector<TensorView>& tensors() const noexcept { return header_.tensors; }
  [[nodiscard]] const std::map<std::string, std::string>& metadata() const noexcept { return header_.metadata; }
  [[nodiscard]] const std::string& path() const noexcept { return file_.path(); }
  [[nodiscard]] const TensorView* find(std::string_view name) const noexcept;  // null: not there
  // Throws DataError naming file, tensor, its shape and the expected one, or the nearest name when it is missing.
  [[nodiscard]] const TensorView& require(std::string_view name, std::span<const std::int64_t> shape) const;

 private:
  MappedFile file_;
  SafetensorsHeader header_;
  std::map<std::string, std::size_t, std::less<>> places_;
};

// Atomic: an old file survives a failure. Names must be unique, bytes must fit type and shape (InvalidArgument).
void write_safetensors(const std::string& path, std::span<const TensorView> tensors,
                       const std::map<std::string, std::string>& metadata = {});

}  // namespace spectralclip::lab::data
