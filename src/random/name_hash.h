// SPDX-License-Identifier: Apache-2.0
// A parameter's name as a number: FNV-1a over the bytes, then the finaliser of SplitMix64, so that near names lie far
// apart. Part of the random address of a matrix, therefore never to change: equal names give equal columns everywhere.
#pragma once

#include <cstdint>
#include <string_view>

namespace spectralclip {

[[nodiscard]] constexpr std::uint64_t mixed_bits(std::uint64_t x) noexcept {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

[[nodiscard]] constexpr std::uint64_t name_hash(std::string_view name) noexcept {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return mixed_bits(hash);
}

// The index-th matrix of a parameter. The name is the normalized one: wrappers must not change the bits.
[[nodiscard]] constexpr std::uint64_t matrix_id_of(std::string_view name, std::int64_t index) noexcept {
  return mixed_bits(name_hash(name) + 0x9e3779b97f4a7c15ULL * static_cast<std::uint64_t>(index));
}

}  // namespace spectralclip
