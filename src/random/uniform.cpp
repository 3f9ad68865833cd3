// SPDX-License-Identifier: Apache-2.0
#include "random/uniform.h"

#include <algorithm>

namespace spectralclip {
namespace {

constexpr std::uint32_t kMultiplier0 = 0xD2511F53U;
constexpr std::uint32_t kMultiplier1 = 0xCD9E8D57U;
constexpr std::uint32_t kWeyl0 = 0x9E3779B9U;
constexpr std::uint32_t kWeyl1 = 0xBB67AE85U;
constexpr int kRounds = 10;
constexpr double kSqrt3 = 1.7320508075688772;

// A batch of counters side by side, so that the compiler turns the rounds into vector code.
constexpr int kBatch = 16;
struct Batch {
  std::uint32_t word[4][kBatch];
};

void philox_batch(Batch& b, std::uint32_t key0, std::uint32_t key1) noexcept {
  for (int round = 0; round < kRounds; ++round, key0 += kWeyl0, key1 += kWeyl1) {
    for (int i = 0; i < kBatch; ++i) {
      const std::uint64_t product0 = std::uint64_t{kMultiplier0} * b.word[0][i];
      const std::uint64_t product1 = std::uint64_t{kMultiplier1} * b.word[2][i];
      const std::uint32_t next0 = static_cast<std::uint32_t>(product1 >> 32) ^ b.word[1][i] ^ key0;
      const std::uint32_t next2 = static_cast<std::uint32_t>(product0 >> 32) ^ b.word[3][i] ^ key1;
      b.word[0][i] = next0;
      b.word[1][i] = static_cast<std::uint32_t>(product1);
      b.word[2][i] = next2;
      b.word[3][i] = static_cast<std::uint32_t>(product0);
    }
  }
}

std::uint64_t mix(std::uint64_t x) noexcept {  // finalizer of SplitMix64: every input bit reaches every output bit
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9U;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBU;
  return x ^ (x >> 31);
}

// Odd, so that no entry is exactly zero; 2^-31 * sqrt 3 times a signed 32-bit integer.
template <class T>
T to_uniform(std::uint32_t bits) noexcept {
  return static_cast<T>(static_cast<std::int32_t>(bits | 1U)) * static_cast<T>(kSqrt3 * 0x1p-31);
}

template <class T>
void fill(const RandomStream& stream, std::uint32_t column, T* out, std::int64_t n) noexcept {
  const std::uint64_t key = mix(stream.seed + 0x9E3779B97F4A7C15U * mix(stream.matrix_id + 1));
  Batch b;  // NOLINT(cppcoreguidelines-pro-type-member-init): filled below, in the inner loop
  for (std::int64_t start = 0; start < n; start += 4 * kBatch) {
    for (int i = 0; i < kBatch; ++i) {  // counter: position (block of 64), column and pass, step
      b.word[0][i] = static_cast<std::uint32_t>(start / 4 + i);
      b.word[1][i] = column | (stream.pass << 16);
      b.word[2][i] = static_cast<std::uint32_t>(stream.step);
      b.word[3][i] = static_cast<std::uint32_t>(stream.step >> 32);
    }
    philox_batch(b, static_cast<std::uint32_t>(key), static_cast<std::uint32_t>(key >> 32));
    const std::int64_t count = std::min<std::int64_t>(4 * kBatch, n - start);
    const std::uint32_t* words = &b.word[0][0];
    for (std::int64_t i = 0; i < count; ++i) out[start + i] = to_uniform<T>(words[i]);
  }
}

}  // namespace

std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter,
                                        std::array<std::uint32_t, 2> key) noexcept {
  Batch b{};
  for (int w = 0; w < 4; ++w) b.word[w][0] = counter[static_cast<std::size_t>(w)];
  philox_batch(b, key[0], key[1]);
  return {b.word[0][0], b.word[1][0], b.word[2][0], b.word[3][0]};
}

void fill_uniform(const RandomStream& stream, std::uint32_t column, float* out, std::int64_t n) noexcept {
  fill(stream, column, out, n);
}
void fill_uniform(const RandomStream& stream, std::uint32_t column, double* out, std::int64_t n) noexcept {
  fill(stream, column, out, n);
}

}  // namespace spectralclip
