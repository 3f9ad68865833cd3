// SPDX-License-Identifier: Apache-2.0
#include "aten/random_columns.h"

#include <vector>

#include "aten/storage.h"
#include "random/name_hash.h"

namespace spectralclip::torch::aten {
namespace {

using at::Tensor;

constexpr std::int64_t signed_bits(std::uint64_t bits) { return static_cast<std::int64_t>(bits); }

constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15ULL;
constexpr double kSqrt3 = 1.7320508075688772;

// x ^ (x >> shift) with zeros shifted in; int64's own shift copies the sign.
Tensor xor_shifted(const Tensor& x, int shift) {
  const std::int64_t mask = signed_bits(~std::uint64_t{0} >> shift);
  return at::bitwise_xor(x, at::bitwise_right_shift(x, shift).bitwise_and_(mask));
}

// The finaliser of SplitMix64 on a tensor (random/name_hash.h: mixed_bits). Products wrap around.
Tensor mixed(Tensor x) {
  x = xor_shifted(x, 30).mul_(signed_bits(0xbf58476d1ce4e5b9ULL));
  x = xor_shifted(x, 27).mul_(signed_bits(0x94d049bb133111ebULL));
  return xor_shifted(x, 31);
}

}  // namespace

Tensor stream_keys(const BatchStream& stream, const at::Device& device) {
  std::vector<std::int64_t> keys;
  for (const std::int64_t id : stream.matrix_ids) {
    keys.push_back(signed_bits(mixed_bits(stream.seed + kGolden * mixed_bits(static_cast<std::uint64_t>(id) + 1))));
  }
  return whole_numbers(keys, device);
}

// 13 integer operations an entry. The 53 upper bits as an odd signed number: never zero, below 1 in size.
Tensor random_columns(const Tensor& keys, const Tensor& steps, std::int64_t pass, std::int64_t n, std::int64_t k) {
  const Tensor address = mixed(mixed(keys + steps * signed_bits(kGolden)) + pass).unsqueeze(1);
  const Tensor position = at::arange(n * k, keys.options()).mul_(signed_bits(kGolden)).unsqueeze(0);
  const Tensor bits = at::bitwise_right_shift(mixed(address + position), 11).bitwise_or_(1);
  return bits.to(at::kDouble).mul_(kSqrt3 * 0x1p-52).view({keys.size(0), n, k});
}

}  // namespace spectralclip::torch::aten
