// SPDX-License-Identifier: Apache-2.0
// Numbers as little-endian bytes, whatever the machine. The reader never passes the end: every step names the field it
// wants, and what is missing becomes a StateFileError with the position.
#pragma once

#include <bit>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "require.h"

namespace spectralclip {

// FNV-1a, 64 bits. Each round is a bijection of the running value, so any single changed byte changes the result.
[[nodiscard]] constexpr std::uint64_t checksum_of(std::span<const std::uint8_t> bytes) noexcept {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (const std::uint8_t byte : bytes) hash = (hash ^ byte) * 0x100000001b3ULL;
  return hash;
}

class ByteWriter {
 public:
  template <std::integral T>
  void put(T value) {
    auto bits = static_cast<std::uint64_t>(value);
    for (std::size_t i = 0; i < sizeof(T); ++i, bits >>= 8) bytes_.push_back(static_cast<std::uint8_t>(bits));
  }
  void put(double value) { put(std::bit_cast<std::uint64_t>(value)); }
  void put(float value) { put(std::bit_cast<std::uint32_t>(value)); }
  void put(std::string_view text) {
    put(static_cast<std::uint32_t>(text.size()));
    bytes_.insert(bytes_.end(), text.begin(), text.end());
  }

  void reserve(std::size_t bytes) { bytes_.reserve(bytes); }
  [[nodiscard]] std::span<const std::uint8_t> bytes() const noexcept { return bytes_; }
  [[nodiscard]] std::vector<std::uint8_t> take() && noexcept { return std::move(bytes_); }

 private:
  std::vector<std::uint8_t> bytes_;
};

class ByteReader {
 public:
  explicit ByteReader(std::span<const std::uint8_t> bytes) noexcept : bytes_(bytes) {}

  [[nodiscard]] std::size_t position() const noexcept { return position_; }
  [[nodiscard]] std::size_t remaining() const noexcept { return bytes_.size() - position_; }

  template <std::integral T>
  [[nodiscard]] T integer(const char* field) {
    std::uint64_t bits = 0;
    const auto piece = take(sizeof(T), field);
    for (std::size_t i = sizeof(T); i-- > 0;) bits = bits << 8 | piece[i];
    return static_cast<T>(bits);
  }
  [[nodiscard]] double float64(const char* field) { return std::bit_cast<double>(integer<std::uint64_t>(field)); }
  [[nodiscard]] float float32(const char* field) { return std::bit_cast<float>(integer<std::uint32_t>(field)); }
  [[nodiscard]] std::string text(const char* field) {
    const auto piece = take(integer<std::uint32_t>(field), field);
    return {piece.begin(), piece.end()};
  }

  void skip(std::size_t bytes, const char* field) { (void)take(bytes, field); }

  // A count of items of `item_bytes` each that the rest can hold: a forged one is refused before memory is asked for.
  [[nodiscard]] std::size_t count(std::size_t item_bytes, const char* field) {
    const auto value = integer<std::uint64_t>(field);
    if (value > remaining() / item_bytes) truncated(field);
    return static_cast<std::size_t>(value);
  }

  [[noreturn]] void truncated(const char* field) const {
    throw StateFileError(detail::concat("state is truncated at byte ", bytes_.size(), ": ", field, " at byte ",
                                        position_, " reaches beyond it"));
  }

 private:
  [[nodiscard]] std::span<const std::uint8_t> take(std::size_t bytes, const char* field) {
    if (bytes > remaining()) truncated(field);
    const auto piece = bytes_.subspan(position_, bytes);
    position_ += bytes;
    return piece;
  }

  std::span<const std::uint8_t> bytes_;
  std::size_t position_ = 0;
};

}  // namespace spectralclip
