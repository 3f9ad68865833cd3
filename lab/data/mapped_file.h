// SPDX-License-Identifier: Apache-2.0
// A file of data as bytes: mapped read-only, so that a file larger than memory costs address space alone and pages come
// as they are touched. Nothing may shorten the file meanwhile (a page that is gone ends the process, as with any
// mapping).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace spectralclip::lab::data {

class MappedFile {
 public:
  // Throws DataError with the path and the system's reason; a folder or a device is refused.
  explicit MappedFile(std::string path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return bytes_; }
  [[nodiscard]] std::int64_t size() const noexcept { return static_cast<std::int64_t>(bytes_.size()); }
  [[nodiscard]] const std::string& path() const noexcept { return path_; }

 private:
  std::string path_;
  std::span<const std::byte> bytes_;
};

}  // namespace spectralclip::lab::data
