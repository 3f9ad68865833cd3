// SPDX-License-Identifier: Apache-2.0
// A named tensor that lies in a file: type, shape and bytes, which need not be aligned. Row-major, little-endian.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace spectralclip::lab::data {

// All that safetensors files may hold; only the first three become floats here.
enum class ElementType { f32, f16, bf16, f64, i64, u64, i32, u32, i16, u16, i8, u8, boolean, f8_e5m2, f8_e4m3 };

[[nodiscard]] std::int64_t bytes_of(ElementType type) noexcept;       // of one entry
[[nodiscard]] std::string_view to_string(ElementType type) noexcept;  // as safetensors writes it: "F32", …
[[nodiscard]] std::optional<ElementType> parse_element_type(std::string_view name) noexcept;

struct TensorView {
  std::string name;
  ElementType type = ElementType::f32;
  std::vector<std::int64_t> shape;  // empty: a scalar
  std::span<const std::byte> bytes;

  [[nodiscard]] std::int64_t entries() const noexcept;
};

[[nodiscard]] std::string shape_text(std::span<const std::int64_t> shape);  // "[768, 2304]"
// Nothing when an extent is negative or the product overflows.
[[nodiscard]] std::optional<std::int64_t> bytes_of(ElementType type, std::span<const std::int64_t> shape) noexcept;

// As float32: F32 is copied, F16 and BF16 are widened (exact). Throws InvalidArgument on another size of `out`,
// DataError on another type, before anything is written.
void to_float(const TensorView& tensor, std::span<float> out);
// Rounded to nearest, ties to even, for F16 and BF16; `type` must be one of the three.
[[nodiscard]] std::vector<std::byte> from_float(std::span<const float> values, ElementType type);

}  // namespace spectralclip::lab::data
