// SPDX-License-Identifier: Apache-2.0
// Files of data for tests: written as bytes, refused with a message.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <vector>

#include "data/data_error.h"
#include "scratch_folder.h"

namespace spectralclip::lab::data {

inline void write_bytes(const std::string& path, const std::string& bytes) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream(path, std::ios::binary) << bytes;
}

inline std::string read_bytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

template <class T>
std::string bytes_of_values(std::span<const T> values) {
  return {reinterpret_cast<const char*>(values.data()), values.size_bytes()};
}
template <class T>
std::string bytes_of_values(const std::vector<T>& values) {
  return bytes_of_values(std::span<const T>(values));
}

// A header of llm.c: 256 int32, the first few given.
inline std::string llmc_header(std::vector<std::int32_t> first) {
  first.resize(256);
  return bytes_of_values(first);
}

// The message of the DataError that the call throws.
template <class Call>
std::string data_error(Call&& call) {
  try {
    call();
  } catch (const DataError& error) {
    return error.what();
  }
  return "nothing was thrown";
}

// A file of SPECTRALCLIP_DATA or ../shared/data; empty when it is not at hand.
inline std::string data_at_hand(const std::string& name) {
  const char* const chosen = std::getenv("SPECTRALCLIP_DATA");
  const std::string path = std::string(chosen != nullptr ? chosen : "../shared/data") + "/" + name;
  return std::filesystem::exists(path) ? path : "";
}

}  // namespace spectralclip::lab::data

// In a test: its message names every part.
#define EXPECT_NAMES(message, ...)                                                             \
  do {                                                                                         \
    const std::string message_ = (message);                                                    \
    const std::vector<std::string> parts_{__VA_ARGS__};                                        \
    for (const std::string& part : parts_)                                                     \
      EXPECT_NE(message_.find(part), std::string::npos) << part << " is not in: " << message_; \
  } while (false)
