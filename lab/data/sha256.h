// SPDX-License-Identifier: Apache-2.0
// SHA-256 (FIPS 180-4), taken as the bytes come.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace spectralclip::lab::data {

class Sha256 {
 public:
  void update(std::span<const std::byte> bytes) noexcept;
  // Of all bytes so far, as 64 lower-case hex digits. More bytes may follow.
  [[nodiscard]] std::string hex() const;

 private:
  void compress(const std::byte* block) noexcept;  // 64 bytes

  std::array<std::uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                         0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<std::byte, 64> pending_{};
  std::uint64_t length_ = 0;  // bytes so far
};

// The file is read once, a piece at a time. Throws DataError when it cannot be read.
[[nodiscard]] std::string sha256_of_file(const std::string& path);

}  // namespace spectralclip::lab::data
