// SPDX-License-Identifier: Apache-2.0
// A file of JSON lines that grows, each with a "step" that never falls. Lines reach the disk at flush() and sync();
// what a kill tears off is cut when the file is opened again. Errors are StateFileError with the path and, where there
// is one, the line.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

namespace spectralclip::lab {

class JsonlFile {
 public:
  // Keeps the lines up to `keep_step` (-1: none) and cuts the rest. A damaged line among those to be kept is refused.
  JsonlFile(std::string path, std::int64_t keep_step);
  ~JsonlFile();
  JsonlFile(const JsonlFile&) = delete;
  JsonlFile& operator=(const JsonlFile&) = delete;

  void append(const nlohmann::ordered_json& line);
  void flush();  // to the file
  void sync();   // to the disk

 private:
  std::string path_;
  std::string pending_;
  int descriptor_;
};

// Bytes of the lines to keep; see the constructor. For text with lines that end in '\n'.
[[nodiscard]] std::size_t kept_length(const std::string& text, std::int64_t keep_step, const std::string& path);

}  // namespace spectralclip::lab
