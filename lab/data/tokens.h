// SPDX-License-Identifier: Apache-2.0
// A long row of 16-bit tokens, wherever it lies: in memory or in mapped files, in one piece (shard) or several. Copies
// of the object share the tokens.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace spectralclip::lab::data {

class Tokens {
 public:
  Tokens() = default;
  explicit Tokens(std::vector<std::uint16_t> tokens);
  // Views of memory that `owner` keeps alive.
  Tokens(std::vector<std::span<const std::uint16_t>> shards, std::shared_ptr<const void> owner);

  [[nodiscard]] std::int64_t size() const noexcept { return starts_.back(); }
  [[nodiscard]] std::int64_t shards() const noexcept { return static_cast<std::int64_t>(shards_.size()); }
  [[nodiscard]] std::span<const std::uint16_t> shard(std::int64_t index) const;
  // Tokens begin … begin + out.size() - 1 of the whole row, over the ends of shards. Throws InvalidArgument when they
  // are not there.
  void copy(std::int64_t begin, std::span<std::uint16_t> out) const;
  void copy(std::int64_t begin, std::span<std::int64_t> out) const;
  // A part of the row, without copying.
  [[nodiscard]] Tokens slice(std::int64_t begin, std::int64_t size) const;

  // The largest token (reads everything once); -1 of none.
  [[nodiscard]] std::int64_t largest() const;

 private:
  template <class Use>
  void for_each_piece(std::int64_t begin, std::int64_t size, Use&& use) const;

  std::vector<std::span<const std::uint16_t>> shards_;  // none is empty
  std::vector<std::int64_t> starts_ = {0};              // of each shard, and the end
  std::shared_ptr<const void> owner_;
};

}  // namespace spectralclip::lab::data
