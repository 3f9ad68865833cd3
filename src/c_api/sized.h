// SPDX-License-Identifier: Apache-2.0
// Structs that begin with their size: what a program and a library of different versions both know is taken over, the
// rest has its default (a shorter struct), or must be zero (a longer one, whose new fields this library does not have).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "require.h"

namespace spectralclip::c_api {

inline constexpr std::uint64_t kSizeUnit = 8;          // fields do not straddle it
inline constexpr std::uint64_t kLargestStruct = 4096;  // beyond it the size is a stray value

inline void require_size(std::uint64_t size, const char* name) {
  SPECTRALCLIP_REQUIRE(size >= kSizeUnit && size <= kLargestStruct && size % kSizeUnit == 0, name,
                       ".struct_size = ", size, " is no size of this struct: was ", name, "_init or ", name,
                       "_of called?");
}

// Reads struct_size alone, before anything else of `given` is believed to be there.
inline std::uint64_t size_of_struct(const void* given, const char* name) {
  std::uint64_t size = 0;
  std::memcpy(&size, given, sizeof size);
  require_size(size, name);
  return size;
}

// `defaults` with what `given` has of it.
template <class Struct>
Struct taken_over(const Struct* given, const Struct& defaults, const char* name) {
  static_assert(offsetof(Struct, struct_size) == 0 && sizeof(Struct) % kSizeUnit == 0);
  const std::uint64_t size = size_of_struct(given, name);
  const auto* const bytes = reinterpret_cast<const unsigned char*>(given);
  for (std::uint64_t i = sizeof(Struct); i < size; ++i)
    SPECTRALCLIP_REQUIRE(bytes[i] == 0, name, " has ", size, " bytes, those from ", sizeof(Struct),
                         " on are not known to this library and not zero: it is older than the program's header");
  Struct result = defaults;
  std::memcpy(&result, given, std::min<std::uint64_t>(size, sizeof(Struct)));
  result.struct_size = sizeof(Struct);
  return result;
}

// As much of `full` as the struct at `given` has room for; zeros beyond. Its struct_size stays.
template <class Struct>
void hand_over(const Struct& full, Struct* given) noexcept {
  const std::uint64_t size = given->struct_size;
  const std::uint64_t known = std::min<std::uint64_t>(size, sizeof(Struct));
  std::memcpy(given, &full, known);
  if (size > known) std::memset(reinterpret_cast<unsigned char*>(given) + known, 0, size - known);
  std::memcpy(given, &size, sizeof size);
}

// The same for a struct that does not know its size yet.
template <class Struct>
void initialise(const Struct& defaults, Struct* given, std::uint64_t size) noexcept {
  if (given == nullptr || size < kSizeUnit || size > kLargestStruct || size % kSizeUnit != 0) return;
  std::memcpy(given, &size, sizeof size);
  hand_over(defaults, given);
}

// An array of structs of one size, which may be another than here.
template <class Struct>
class SizedArray {
 public:
  SizedArray(const Struct* first, std::int64_t count, const char* name) : first_(first), name_(name) {
    SPECTRALCLIP_REQUIRE(count >= 0, "the number of ", name, " is ", count);
    SPECTRALCLIP_REQUIRE(count == 0 || first != nullptr, "an array of ", name, " is NULL, their number is ", count);
    if (count > 0) stride_ = size_of_struct(first, name);
  }
  [[nodiscard]] Struct operator[](std::int64_t i) const {
    const auto* const bytes = reinterpret_cast<const unsigned char*>(first_) + static_cast<std::uint64_t>(i) * stride_;
    const std::uint64_t size = size_of_struct(bytes, name_);
    SPECTRALCLIP_REQUIRE(size == stride_, name_, " of index ", i, ": struct_size = ", size, ", that of index 0 has ",
                         stride_);
    return taken_over(reinterpret_cast<const Struct*>(bytes), Struct{}, name_);
  }

 private:
  const Struct* first_;
  const char* name_;
  std::uint64_t stride_ = 0;
};

}  // namespace spectralclip::c_api
