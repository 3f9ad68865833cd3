// SPDX-License-Identifier: Apache-2.0
#include "data/tensor_view.h"

#include <array>
#include <cstring>

#include "data/data_error.h"
#include "kernels/scalar_convert.h"

namespace spectralclip::lab::data {
namespace {

struct TypeFacts {
  ElementType type;
  std::string_view name;
  std::int64_t bytes;
};
constexpr std::array<TypeFacts, 15> kTypes = {{{ElementType::f32, "F32", 4},
                                               {ElementType::f16, "F16", 2},
                                               {ElementType::bf16, "BF16", 2},
                                               {ElementType::f64, "F64", 8},
                                               {ElementType::i64, "I64", 8},
                                               {ElementType::u64, "U64", 8},
                                               {ElementType::i32, "I32", 4},
                                               {ElementType::u32, "U32", 4},
                                               {ElementType::i16, "I16", 2},
                                               {ElementType::u16, "U16", 2},
                                               {ElementType::i8, "I8", 1},
                                               {ElementType::u8, "U8", 1},
                                               {ElementType::boolean, "BOOL", 1},
                                               {ElementType::f8_e5m2, "F8_E5M2", 1},
                                               {ElementType::f8_e4m3, "F8_E4M3", 1}}};

const TypeFacts& facts(ElementType type) { return kTypes[static_cast<std::size_t>(type)]; }

template <class Element>
void widen(std::span<const std::byte> bytes, std::span<float> out) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    Element element;
    std::memcpy(&element, bytes.data() + i * sizeof element, sizeof element);  // may be unaligned
    out[i] = kernels::to_float(element);
  }
}

template <class Round>
void narrow(std::span<const float> values, std::span<std::byte> out, Round&& round) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint16_t bits = round(values[i]).bits;
    std::memcpy(out.data() + 2 * i, &bits, sizeof bits);
  }
}

}  // namespace

std::int64_t bytes_of(ElementType type) noexcept { return facts(type).bytes; }
std::string_view to_string(ElementType type) noexcept { return facts(type).name; }

std::optional<ElementType> parse_element_type(std::string_view name) noexcept {
  for (const TypeFacts& one : kTypes) {
    if (one.name == name) return one.type;
  }
  return std::nullopt;
}

std::int64_t TensorView::entries() const noexcept { return static_cast<std::int64_t>(bytes.size()) / bytes_of(type); }

std::string shape_text(std::span<const std::int64_t> shape) {
  std::string text = "[";
  for (const std::int64_t extent : shape) text += (text.size() > 1 ? ", " : "") + std::to_string(extent);
  return text + "]";
}

std::optional<std::int64_t> bytes_of(ElementType type, std::span<const std::int64_t> shape) noexcept {
  std::int64_t bytes = bytes_of(type);
  bool zero = false;
  for (const std::int64_t extent : shape) {
    if (extent < 0) return std::nullopt;
    if (extent == 0) zero = true;
    if (extent > 0 && __builtin_mul_overflow(bytes, extent, &bytes)) return std::nullopt;
  }
  return zero ? 0 : bytes;
}

void to_float(const TensorView& tensor, std::span<float> out) {
  SPECTRALCLIP_REQUIRE(static_cast<std::int64_t>(out.size()) == tensor.entries(), "tensor ", tensor.name, " has ",
                       tensor.entries(), " entries, there is room for ", out.size());
  switch (tensor.type) {
    case ElementType::f32:
      return widen<float>(tensor.bytes, out);
    case ElementType::f16:
      return widen<Float16>(tensor.bytes, out);
    case ElementType::bf16:
      return widen<BFloat16>(tensor.bytes, out);
    default:
      throw_data_error("tensor ", tensor.name, " holds ", to_string(tensor.type), "; F32, F16 or BF16 was expected");
  }
}

std::vector<std::byte> from_float(std::span<const float> values, ElementType type) {
  SPECTRALCLIP_REQUIRE(type == ElementType::f32 || type == ElementType::f16 || type == ElementType::bf16,
                       "floats are stored as F32, F16 or BF16, not as ", to_string(type));
  std::vector<std::byte> bytes(values.size() * static_cast<std::size_t>(bytes_of(type)));
  if (values.empty()) return bytes;
  if (type == ElementType::f32) std::memcpy(bytes.data(), values.data(), bytes.size());
  if (type == ElementType::f16) narrow(values, bytes, [](float x) { return kernels::to_float16(x); });
  if (type == ElementType::bf16) narrow(values, bytes, [](float x) { return kernels::to_bfloat16(x); });
  return bytes;
}

}  // namespace spectralclip::lab::data
