// SPDX-License-Identifier: Apache-2.0
#include "data/tokens.h"

#include <algorithm>

#include "require.h"

namespace spectralclip::lab::data {

Tokens::Tokens(std::vector<std::uint16_t> tokens) {
  const auto owned = std::make_shared<const std::vector<std::uint16_t>>(std::move(tokens));
  if (!owned->empty()) {
    shards_.emplace_back(*owned);
    starts_.push_back(static_cast<std::int64_t>(owned->size()));
  }
  owner_ = owned;
}

Tokens::Tokens(std::vector<std::span<const std::uint16_t>> shards, std::shared_ptr<const void> owner)
    : shards_(std::move(shards)), owner_(std::move(owner)) {
  std::erase_if(shards_, [](const auto& shard) { return shard.empty(); });
  for (const auto& shard : shards_) starts_.push_back(starts_.back() + static_cast<std::int64_t>(shard.size()));
}

std::span<const std::uint16_t> Tokens::shard(std::int64_t index) const {
  SPECTRALCLIP_REQUIRE(index >= 0 && index < shards(), "shard ", index, " of ", shards());
  return shards_[static_cast<std::size_t>(index)];
}

// Calls use(piece) for the pieces of [begin, begin + size), in order.
template <class Use>
void Tokens::for_each_piece(std::int64_t begin, std::int64_t size, Use&& use) const {
  SPECTRALCLIP_REQUIRE(begin >= 0 && size >= 0 && begin <= this->size() && size <= this->size() - begin, "tokens ",
                       begin, " to ", begin, " + ", size, " of ", this->size());
  if (size == 0) return;
  auto shard = static_cast<std::size_t>(std::ranges::upper_bound(starts_, begin) - starts_.begin()) - 1;
  for (; size > 0; ++shard) {
    const std::int64_t inside = begin - starts_[shard];
    const std::int64_t taken = std::min(size, starts_[shard + 1] - begin);
    use(shards_[shard].subspan(static_cast<std::size_t>(inside), static_cast<std::size_t>(taken)));
    begin += taken;
    size -= taken;
  }
}

void Tokens::copy(std::int64_t begin, std::span<std::uint16_t> out) const {
  auto to = out.begin();
  for_each_piece(begin, static_cast<std::int64_t>(out.size()),
                 [&](auto piece) { to = std::copy(piece.begin(), piece.end(), to); });
}

void Tokens::copy(std::int64_t begin, std::span<std::int64_t> out) const {
  auto to = out.begin();
  for_each_piece(begin, static_cast<std::int64_t>(out.size()),
                 [&](auto piece) { to = std::copy(piece.begin(), piece.end(), to); });
}

Tokens Tokens::slice(std::int64_t begin, std::int64_t size) const {
  std::vector<std::span<const std::uint16_t>> pieces;
  for_each_piece(begin, size, [&](auto piece) { pieces.push_back(piece); });
  return {std::move(pieces), owner_};
}

std::int64_t Tokens::largest() const {
  std::int64_t most = -1;
  for (const auto& shard : shards_) most = std::max<std::int64_t>(most, *std::ranges::max_element(shard));
  return most;
}

}  // namespace spectralclip::lab::data
