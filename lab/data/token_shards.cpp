// SPDX-License-Identifier: Apache-2.0
#include "data/token_shards.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>

#include "clipper/atomic_file.h"
#include "data/data_error.h"
#include "data/locate.h"
#include "data/mapped_file.h"

namespace spectralclip::lab::data {
namespace {

static_assert(std::endian::native == std::endian::little, "data files are little-endian and mapped as they are");

constexpr std::int32_t kShardMagic = 20240520, kShardVersion = 1;
constexpr std::int32_t kLlama3Magic = 20240801;  // 32-bit tokens
constexpr std::size_t kShardHeaderBytes = 1024;

void check_header(std::span<const std::byte> bytes, const std::string& name) {
  if (bytes.size() < kShardHeaderBytes)
    throw_data_error(name, ": ", bytes.size(), " bytes are too few for the header of a token shard (1024)");
  std::array<std::int32_t, 3> header{};
  std::memcpy(header.data(), bytes.data(), sizeof header);
  const auto [magic, version, tokens] = header;
  if (magic == kLlama3Magic)
    throw_data_error(name, " holds 32-bit Llama 3 tokens (magic 20240801); 16-bit GPT-2 tokens (20240520) are read");
  if (magic != kShardMagic) throw_data_error(name, " is no token shard: it begins with ", magic, ", not with 20240520");
  if (version != kShardVersion) throw_data_error(name, " has version ", version, "; version 1 is read");
  if (tokens <= 0) throw_data_error(name, ": the header says ", tokens, " tokens; at least 1 was expected");
  const std::uint64_t expected = kShardHeaderBytes + 2 * static_cast<std::uint64_t>(tokens);
  if (bytes.size() != expected)
    throw_data_error(name, bytes.size() < expected ? " is truncated: " : " is too long: ", bytes.size(), " bytes; ",
                     expected, " hold the ", tokens, " tokens that its header says");
}

}  // namespace

std::span<const std::uint16_t> parse_shard(std::span<const std::byte> bytes, const std::string& name) {
  check_header(bytes, name);
  const std::byte* const first = bytes.data() + kShardHeaderBytes;  // a mapping is aligned
  if (reinterpret_cast<std::uintptr_t>(first) % alignof(std::uint16_t) != 0)
    throw_data_error(name, ": the bytes of a shard must lie at an even address");
  return {reinterpret_cast<const std::uint16_t*>(first), (bytes.size() - kShardHeaderBytes) / 2};
}

Tokens open_token_shards(const std::string& pattern, std::int64_t vocabulary_size) {
  const std::vector<std::string> paths = glob_files(pattern);
  if (paths.empty()) throw_data_error("no token shard matches ", pattern);
  const auto files = std::make_shared<std::vector<MappedFile>>();
  std::vector<std::span<const std::uint16_t>> shards;
  for (const std::string& path : paths) {
    shards.push_back(parse_shard(files->emplace_back(path).bytes(), path));
    require_below(shards.back(), vocabulary_size, path);
  }
  return {std::move(shards), files};
}

void require_below(std::span<const std::uint16_t> tokens, std::int64_t vocabulary_size, const std::string& name) {
  if (vocabulary_size > std::numeric_limits<std::uint16_t>::max()) return;
  const auto bad =
      std::ranges::find_if(tokens, [&](std::uint16_t token) { return std::int64_t{token} >= vocabulary_size; });
  if (bad != tokens.end())
    throw_data_error(name, ": token ", bad - tokens.begin(), " is ", *bad, "; a vocabulary of ", vocabulary_size,
                     " was expected");
}

void write_token_shard(const std::string& path, std::span<const std::uint16_t> tokens) {
  SPECTRALCLIP_REQUIRE(!tokens.empty() && tokens.size() <= std::numeric_limits<std::int32_t>::max(), tokens.size(),
                       " tokens: a shard holds 1 to 2^31 - 1");
  std::array<std::int32_t, kShardHeaderBytes / 4> header{kShardMagic, kShardVersion,
                                                         static_cast<std::int32_t>(tokens.size())};
  AtomicFile file(path);
  const auto write = [&](auto bytes) {
    file.write({reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()});
  };
  write(std::as_bytes(std::span(header)));
  write(std::as_bytes(tokens));
  file.commit();
}

}  // namespace spectralclip::lab::data
