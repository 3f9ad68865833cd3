// SPDX-License-Identifier: Apache-2.0
// One process a directory: an flock on DIR/lock, released by the kernel however the process ends. Throws StateFileError
// naming the process that has it.
#pragma once

#include <string>

namespace spectralclip::lab {

class DirectoryLock {
 public:
  explicit DirectoryLock(const std::string& directory);  // makes the directory if it is missing
  ~DirectoryLock();
  DirectoryLock(const DirectoryLock&) = delete;
  DirectoryLock& operator=(const DirectoryLock&) = delete;

 private:
  int descriptor_;
};

}  // namespace spectralclip::lab
