// SPDX-License-Identifier: Apache-2.0
#include "data/llmc_model.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>

#include "clipper/atomic_file.h"
#include "data/data_error.h"

namespace spectralclip::lab::data {
namespace {

constexpr std::int32_t kModelMagic = 20240326, kFloat32 = 3, kBFloat16 = 5;
constexpr std::size_t kModelHeaderBytes = 1024;
using ModelHeader = std::array<std::int32_t, kModelHeaderBytes / 4>;

std::optional<std::string> problem(const Gpt2Shape& shape) {
  const auto [positions, vocabulary, layers, heads, channels, padded] = shape;
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max() / 4;  // 4 C is stored nowhere, but counted
  for (const std::int64_t size : {positions, vocabulary, layers, heads, channels, padded}) {
    if (size < 1 || size > kMost) return detail::concat("a size is ", size, "; 1 to ", kMost, " was expected");
  }
  if (channels % heads != 0) return detail::concat(heads, " heads do not divide ", channels, " channels");
  if (padded < vocabulary) return detail::concat("the padded vocabulary ", padded, " is below ", vocabulary);
  return std::nullopt;
}

std::vector<std::vector<std::int64_t>> shapes_of(const Gpt2Shape& s) {
  const std::int64_t l = s.layers, c = s.channels;
  return {{s.padded_vocabulary, c},
          {s.positions, c},
          {l, c},
          {l, c},
          {l, 3 * c, c},
          {l, 3 * c},
          {l, c, c},
          {l, c},
          {l, c},
          {l, c},
          {l, 4 * c, c},
          {l, 4 * c},
          {l, c, 4 * c},
          {l, c},
          {c},
          {c}};
}

// Bytes of all tensors; nothing when the product overflows.
std::optional<std::int64_t> total_bytes(const std::vector<std::vector<std::int64_t>>& shapes, ElementType type) {
  std::int64_t total = 0;
  for (const auto& shape : shapes) {
    const auto bytes = bytes_of(type, shape);
    if (!bytes || __builtin_add_overflow(total, *bytes, &total)) return std::nullopt;
  }
  return total;
}

ModelHeader read_header(std::span<const std::byte> bytes, const std::string& name) {
  ModelHeader header{};
  if (bytes.size() < kModelHeaderBytes)
    throw_data_error(name, ": ", bytes.size(), " bytes are too few for the header of a model of llm.c (1024)");
  std::memcpy(header.data(), bytes.data(), kModelHeaderBytes);
  if (header[0] != kModelMagic)
    throw_data_error(name, " is no model of llm.c: it begins with ", header[0], ", not with ", kModelMagic);
  if (header[1] != kFloat32 && header[1] != kBFloat16)
    throw_data_error(name, " has version ", header[1], "; 3 (float32) and 5 (bfloat16) are read");
  return header;
}

}  // namespace

std::vector<std::vector<std::int64_t>> llmc_shapes(const Gpt2Shape& shape) {
  const auto wrong = problem(shape);
  SPECTRALCLIP_REQUIRE(!wrong, wrong.value_or(""));
  auto shapes = shapes_of(shape);
  SPECTRALCLIP_REQUIRE(total_bytes(shapes, ElementType::f32), "a model of ", shape.layers, " layers and ",
                       shape.channels, " channels fits no memory");
  return shapes;
}

LlmcModel parse_llmc_model(std::span<const std::byte> bytes, const std::string& name) {
  const ModelHeader header = read_header(bytes, name);
  LlmcModel model;
  model.shape = {header[2], header[3], header[4], header[5], header[6], header[7]};
  model.type = header[1] == kFloat32 ? ElementType::f32 : ElementType::bf16;
  if (const auto wrong = problem(model.shape)) throw_data_error(name, ": ", *wrong);
  const auto shapes = shapes_of(model.shape);
  const auto total = total_bytes(shapes, model.type);
  const auto available = static_cast<std::int64_t>(bytes.size() - kModelHeaderBytes);
  if (!total || *total != available)
    throw_data_error(name, ": ", available, " bytes of parameters; the header asks for ",
                     total ? std::to_string(*total) : "more than any file has", " (", model.shape.layers, " layers, ",
                     model.shape.channels, " channels, ", to_string(model.type), ")");
  auto rest = bytes.subspan(kModelHeaderBytes);
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    const auto size = static_cast<std::size_t>(*bytes_of(model.type, shapes[i]));
    model.tensors.push_back({kLlmcTensors[i], model.type, shapes[i], rest.first(size)});
    rest = rest.subspan(size);
  }
  return model;
}

LlmcModelFile::LlmcModelFile(const std::string& path) : file_(path), model_(parse_llmc_model(file_.bytes(), path)) {}

void write_llmc_model(const std::string& path, const Gpt2Shape& shape, std::span<const TensorView> tensors) {
  const auto shapes = llmc_shapes(shape);
  SPECTRALCLIP_REQUIRE(tensors.size() == shapes.size(), tensors.size(), " tensors; the 16 of llm.c were expected");
  const ElementType type = tensors[0].type;
  SPECTRALCLIP_REQUIRE(type == ElementType::f32 || type == ElementType::bf16, "llm.c stores F32 or BF16, not ",
                       to_string(type));
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    const bool fits = tensors[i].type == type && tensors[i].shape == shapes[i] &&
                      static_cast<std::int64_t>(tensors[i].bytes.size()) == *bytes_of(type, shapes[i]);
    SPECTRALCLIP_REQUIRE(fits, kLlmcTensors[i], " is ", to_string(tensors[i].type), " ", shape_text(tensors[i].shape),
                         " of ", tensors[i].bytes.size(), " bytes; ", to_string(type), " ", shape_text(shapes[i]),
                         " was expected");
  }
  ModelHeader header{kModelMagic, type == ElementType::f32 ? kFloat32 : kBFloat16};
  const std::array sizes = {shape.positions, shape.vocabulary, shape.layers,
                            shape.heads,     shape.channels,   shape.padded_vocabulary};
  std::ranges::transform(sizes, header.begin() + 2, [](std::int64_t size) { return static_cast<std::int32_t>(size); });
  AtomicFile file(path);
  const auto write = [&](std::span<const std::byte> bytes) {
    file.write({reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()});
  };
  write(std::as_bytes(std::span(header)));
  for (const TensorView& tensor : tensors) write(tensor.bytes);
  file.commit();
}

}  // namespace spectralclip::lab::data
