// SPDX-License-Identifier: Apache-2.0
// libFuzzer target for the readers of data and model files. The first byte chooses the reader and how the input is
// used: as the bytes themselves, or as edits (position, value) of a small valid file, so that what lies behind magic
// numbers and lengths is reached. Only DataError may escape, with a message that names the file; what was accepted
// keeps its promises: views inside the file, tokens below the vocabulary, tensors that can be read and written back.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "data/cifar10.h"
#include "data/data_error.h"
#include "data/llmc_model.h"
#include "data/nanogpt_meta.h"
#include "data/safetensors_header.h"
#include "data/token_shards.h"
#include "data/utf8.h"

namespace {

using namespace spectralclip::lab::data;
using Bytes = std::vector<std::byte>;
using Reader = void (*)(std::span<const std::byte>);

const std::string kName = "the file";

void require(bool invariant) {
  if (!invariant) std::abort();
}

bool inside(std::span<const std::byte> part, std::span<const std::byte> whole) {
  return part.empty() || (part.data() >= whole.data() && part.data() + part.size() <= whole.data() + whole.size());
}

// Reads every entry (AddressSanitizer watches), and says that bytes fit the shape.
void use(const TensorView& tensor, std::span<const std::byte> file) {
  require(inside(tensor.bytes, file));
  const auto bytes = bytes_of(tensor.type, tensor.shape);
  require(bytes && *bytes == static_cast<std::int64_t>(tensor.bytes.size()));
  if (tensor.type != ElementType::f32 && tensor.type != ElementType::f16 && tensor.type != ElementType::bf16) return;
  std::vector<float> values(static_cast<std::size_t>(tensor.entries()));
  to_float(tensor, values);
  require(from_float(values, tensor.type).size() == tensor.bytes.size());
}

void read_shard(std::span<const std::byte> bytes) {
  const auto tokens = parse_shard(bytes, kName);
  require(inside(std::as_bytes(tokens), bytes) && 1024 + tokens.size_bytes() == bytes.size() && !tokens.empty());
  require_below(tokens, 50257, kName);
  require(*std::ranges::max_element(tokens) < 50257);
}

void read_cifar(std::span<const std::byte> bytes) {
  const std::int64_t records = check_cifar_batch(bytes, kName);
  require(records * kCifarRecord == static_cast<std::int64_t>(bytes.size()));
  require(cifar_origin(bytes) == CifarOrigin::other);
}

void read_safetensors(std::span<const std::byte> bytes) {
  const SafetensorsHeader header = parse_safetensors(bytes, kName);
  std::size_t total = 0;
  for (const TensorView& tensor : header.tensors) {
    use(tensor, bytes);
    total += tensor.bytes.size();
  }
  require(total < bytes.size());
  // Written again, the same tensors come back.
  std::string again = safetensors_header(header.tensors, header.metadata);
  for (const TensorView& tensor : header.tensors)
    again.append(reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size());
  const SafetensorsHeader second = parse_safetensors(std::as_bytes(std::span(again)), kName);
  require(second.tensors.size() == header.tensors.size() && second.metadata == header.metadata);
}

void read_llmc_model(std::span<const std::byte> bytes) {
  const LlmcModel model = parse_llmc_model(bytes, kName);
  std::size_t total = 1024;
  for (const TensorView& tensor : model.tensors) {
    use(tensor, bytes);
    total += tensor.bytes.size();
  }
  require(model.tensors.size() == 16 && total == bytes.size());
}

void read_meta(std::span<const std::byte> bytes) {
  const Vocabulary vocabulary = parse_nanogpt_meta(bytes, kName);
  require(std::ranges::is_sorted(vocabulary.symbols()) && vocabulary.size() > 0);
}

void read_text(std::span<const std::byte> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  std::string again;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t before = at;
    append_utf8(again, next_symbol(text, at, kName));
    require(at > before && at <= text.size());
  }
  require(again == text);
}

template <class T>
void append(Bytes& bytes, std::span<const T> values) {
  const auto more = std::as_bytes(values);
  bytes.insert(bytes.end(), more.begin(), more.end());
}

Bytes with_header(std::vector<std::int32_t> first, std::size_t rest) {
  first.resize(256);
  Bytes bytes;
  append(bytes, std::span<const std::int32_t>(first));
  bytes.resize(bytes.size() + rest, std::byte{1});
  return bytes;
}

Bytes small_safetensors() {
  const std::string json =
      R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F16","shape":[1,2],"data_offsets":[0,4]},"b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})";
  const std::uint64_t length = json.size();
  Bytes bytes;
  append(bytes, std::span<const std::uint64_t>(&length, 1));
  append(bytes, std::span<const char>(json));
  bytes.resize(bytes.size() + 12, std::byte{1});
  return bytes;
}

Bytes small_model() {
  const Gpt2Shape shape = {2, 3, 1, 1, 2, 3};
  std::size_t size = 0;
  for (const auto& one : llmc_shapes(shape)) size += static_cast<std::size_t>(*bytes_of(ElementType::bf16, one));
  return with_header({20240326, 5, 2, 3, 1, 1, 2, 3}, size);
}

Bytes text_bytes(std::string_view text) {
  Bytes bytes;
  append(bytes, std::span<const char>(text));
  return bytes;
}

Bytes small_meta() {
  using namespace std::string_literals;
  return text_bytes(
      "\x80\x04}\x94(\x8c\nvocab_size\x94K\x02\x8c\x04itos\x94}\x94(K\x00\x8c\x01\n\x94K\x01\x8c\x01"
      "a\x94u\x8c\x04stoi\x94}\x94(h\x04K\x00h\x05K\x01uu."s);
}

struct Format {
  Reader read;
  Bytes valid;
};

const std::vector<Format>& formats() {
  static const std::vector<Format> all = {{read_shard, with_header({20240520, 1, 4}, 8)},
                                          {read_cifar, Bytes(2 * kCifarRecord, std::byte{3})},
                                          {read_safetensors, small_safetensors()},
                                          {read_llmc_model, small_model()},
                                          {read_meta, small_meta()},
                                          {read_text, text_bytes("plain, \xc3\x9f, \xe2\x82\xac, \xf0\x9d\x84\x9e")}};
  return all;
}

// Edits of three bytes: position (two bytes) and new value; the last odd bytes shorten or lengthen the file.
Bytes edited(Bytes bytes, std::span<const std::uint8_t> edits) {
  for (; edits.size() >= 3; edits = edits.subspan(3))
    bytes[(std::size_t{edits[0]} << 8 | edits[1]) % bytes.size()] = std::byte{edits[2]};
  if (edits.size() == 1) bytes.resize(bytes.size() - std::min<std::size_t>(bytes.size(), edits[0]));
  if (edits.size() == 2) bytes.insert(bytes.end(), edits[0], std::byte{edits[1]});
  return bytes;
}

void try_reader(Reader read, std::span<const std::byte> bytes) {
  try {
    read(bytes);
  } catch (const DataError& error) {
    require(std::strstr(error.what(), kName.c_str()) != nullptr);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const Format& format = formats()[data[0] % formats().size()];
  const std::span<const std::uint8_t> rest(data + 1, size - 1);
  if (data[0] < 128) {
    const Bytes bytes(std::as_bytes(rest).begin(), std::as_bytes(rest).end());  // a heap block of that very size
    try_reader(format.read, bytes);
  } else {
    try_reader(format.read, edited(format.valid, rest));
  }
  return 0;
}
