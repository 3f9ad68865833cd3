// SPDX-License-Identifier: Apache-2.0
// As much of Python's pickle (protocols 2 to 5) as nanoGPT's meta.pkl needs: dictionaries, strings, integers. Opcodes
// that would call anything are refused, so a hostile file can do nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace spectralclip::lab::data {

struct PickleValue {
  enum class Kind { none, integer, text, dictionary, mark } kind = Kind::none;
  std::int64_t number = 0;  // of an integer; of a dictionary its place in `dictionaries`
  std::string_view text;    // views the bytes
};

struct Pickle {
  using Dictionary = std::vector<std::pair<PickleValue, PickleValue>>;
  std::vector<Dictionary> dictionaries;  // values name them by place: no cycles, whatever the file says
  PickleValue value;

  // The last value under a key of the dictionary `where`; null when there is none or it is no dictionary.
  [[nodiscard]] const PickleValue* find(const PickleValue& where, std::string_view key) const;
};

// Throws DataError with `name`, the byte and what stands there.
[[nodiscard]] Pickle load_pickle(std::span<const std::byte> bytes, const std::string& name);

}  // namespace spectralclip::lab::data
