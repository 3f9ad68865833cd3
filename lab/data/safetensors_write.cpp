// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>

#include "clipper/atomic_file.h"
#include "data/data_error.h"
#include "data/safetensors.h"
#include "data/safetensors_header.h"

namespace spectralclip::lab::data {
namespace {

using nlohmann::ordered_json;

std::span<const std::uint8_t> octets(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()};
}

std::string little_endian(std::uint64_t value) {
  std::string text(8, '\0');
  for (char& byte : text) {
    byte = static_cast<char>(value & 0xff);
    value >>= 8;
  }
  return text;
}

}  // namespace

std::string safetensors_header(std::span<const TensorView> tensors,
                               const std::map<std::string, std::string>& metadata) {
  ordered_json tree = ordered_json::object();
  if (!metadata.empty()) tree["__metadata__"] = metadata;
  std::int64_t at = 0;
  for (const TensorView& tensor : tensors) {
    const auto bytes = static_cast<std::int64_t>(tensor.bytes.size());
    const auto expected = bytes_of(tensor.type, tensor.shape);
    SPECTRALCLIP_REQUIRE(expected && *expected == bytes, "tensor \"", tensor.name, "\": ", to_string(tensor.type), " ",
                         shape_text(tensor.shape), " does not fit ", bytes, " bytes");
    SPECTRALCLIP_REQUIRE(tensor.name != "__metadata__" && !tree.contains(tensor.name), "two tensors are called \"",
                         tensor.name, "\"");
    tree[tensor.name] = {
        {"dtype", to_string(tensor.type)}, {"shape", tensor.shape}, {"data_offsets", {at, at + bytes}}};
    at += bytes;
  }
  std::string text = tree.dump();
  text.append((8 - text.size() % 8) % 8, ' ');  // so that the data begin at a multiple of 8
  return little_endian(text.size()) + text;
}

void write_safetensors(const std::string& path, std::span<const TensorView> tensors,
                       const std::map<std::string, std::string>& metadata) {
  const std::string header = safetensors_header(tensors, metadata);
  AtomicFile file(path);
  file.write(octets(std::as_bytes(std::span(header))));
  for (const TensorView& tensor : tensors) file.write(octets(tensor.bytes));
  file.commit();
}

}  // namespace spectralclip::lab::data
