// SPDX-License-Identifier: Apache-2.0
// Files that are either the old ones or the new ones, whole, whatever happens in between (POSIX). Errors are
// StateFileError with the path and the system's reason.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace spectralclip {

// Temporary file in the same directory, write, fsync, rename, fsync of the directory. On failure the temporary file is
// removed and an old file at `path` survives. Only a regular file is replaced: a device or directory is refused.
void write_file_atomically(const std::string& path, std::span<const std::uint8_t> bytes);

// The same, a piece at a time: nothing stands at `path` before commit(), and without it nothing changes.
class AtomicFile {
 public:
  explicit AtomicFile(std::string path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::span<const std::uint8_t> bytes);
  void commit();

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

[[nodiscard]] std::vector<std::uint8_t> read_file(const std::string& path);

// The same for text.
void write_text_atomically(const std::string& path, std::string_view text);
[[nodiscard]] std::string read_text(const std::string& path);

// All bytes, over short writes and interruptions; 0 or the errno of the write that failed.
[[nodiscard]] int write_fully(int descriptor, std::span<const std::uint8_t> bytes) noexcept;

}  // namespace spectralclip
