// SPDX-License-Identifier: Apache-2.0
#include "data/sha256.h"

#include <algorithm>
#include <bit>
#include <fstream>
#include <vector>

#include "data/data_error.h"

namespace spectralclip::lab::data {
namespace {

// The first 32 bits of the fractional parts of the cube roots of the first 64 primes (FIPS 180-4, 4.2.2).
constexpr std::array<std::uint32_t, 64> kRound = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

std::uint32_t big_endian(const std::byte* at) {
  std::uint32_t word = 0;
  for (int i = 0; i < 4; ++i) word = word << 8 | std::to_integer<std::uint32_t>(at[i]);
  return word;
}

}  // namespace

void Sha256::compress(const std::byte* block) noexcept {
  std::array<std::uint32_t, 64> w{};
  for (std::size_t i = 0; i < 16; ++i) w[i] = big_endian(block + 4 * i);
  for (std::size_t i = 16; i < 64; ++i) {
    const std::uint32_t low = w[i - 15], high = w[i - 2];
    w[i] = w[i - 16] + (std::rotr(low, 7) ^ std::rotr(low, 18) ^ (low >> 3)) + w[i - 7] +
           (std::rotr(high, 17) ^ std::rotr(high, 19) ^ (high >> 10));
  }
  auto [a, b, c, d, e, f, g, h] = state_;
  for (std::size_t i = 0; i < 64; ++i) {
    const std::uint32_t first =
        h + (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) + ((e & f) ^ (~e & g)) + kRound[i] + w[i];
    const std::uint32_t second =
        (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
    h = g;
    g = f;
    f = e;
    e = d + first;
    d = c;
    c = b;
    b = a;
    a = first + second;
  }
  const std::array<std::uint32_t, 8> sum = {a, b, c, d, e, f, g, h};
  for (std::size_t i = 0; i < 8; ++i) state_[i] += sum[i];
}

void Sha256::update(std::span<const std::byte> bytes) noexcept {
  std::size_t held = length_ % 64;
  length_ += bytes.size();
  if (held > 0) {
    const std::size_t taken = std::min(64 - held, bytes.size());
    std::copy_n(bytes.begin(), taken, pending_.begin() + static_cast<std::ptrdiff_t>(held));
    bytes = bytes.subspan(taken);
    held += taken;
    if (held < 64) return;
    compress(pending_.data());
  }
  for (; bytes.size() >= 64; bytes = bytes.subspan(64)) compress(bytes.data());
  std::copy(bytes.begin(), bytes.end(), pending_.begin());
}

// The padding goes through a copy, so that more bytes may follow.
std::string Sha256::hex() const {
  Sha256 rest = *this;
  std::array<std::byte, 72> padding{std::byte{0x80}};
  const std::size_t held = length_ % 64, zeros = (held < 56 ? 56 : 120) - held;
  for (std::size_t i = 0; i < 8; ++i) padding[zeros + i] = static_cast<std::byte>(length_ * 8 >> (56 - 8 * i));
  rest.update(std::span(padding).first(zeros + 8));
  std::string text;
  for (const std::uint32_t word : rest.state_) {
    for (int shift = 28; shift >= 0; shift -= 4) text += "0123456789abcdef"[word >> shift & 15U];
  }
  return text;
}

std::string sha256_of_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw_data_error("cannot read ", path);
  Sha256 sum;
  std::vector<char> piece(1 << 20);
  while (file) {
    file.read(piece.data(), static_cast<std::streamsize>(piece.size()));
    sum.update(std::as_bytes(std::span(piece).first(static_cast<std::size_t>(file.gcount()))));
  }
  if (file.bad()) throw_data_error("cannot read all of ", path);
  return sum.hex();
}

}  // namespace spectralclip::lab::data
