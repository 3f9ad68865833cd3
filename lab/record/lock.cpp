// SPDX-License-Identifier: Apache-2.0
#include "record/lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <system_error>

#include "require.h"

namespace spectralclip::lab {
namespace {

std::string reason(int error) { return std::generic_category().message(error); }

void make_directory(const std::string& directory) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) throw StateFileError(detail::concat("cannot make the directory ", directory, ": ", error.message()));
}

std::string holder(int descriptor) {
  std::array<char, 32> text{};
  const ssize_t count = ::pread(descriptor, text.data(), text.size() - 1, 0);
  return count > 0 ? std::string(text.data(), static_cast<std::size_t>(count)) : std::string("unknown");
}

}  // namespace

DirectoryLock::DirectoryLock(const std::string& directory) : descriptor_(-1) {
  make_directory(directory);
  const std::string path = directory + "/lock";
  descriptor_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (descriptor_ < 0) throw StateFileError(detail::concat("cannot write ", path, ": ", reason(errno)));
  if (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0) {
    const std::string by = holder(descriptor_);
    ::close(descriptor_);
    throw StateFileError(detail::concat(directory, " is in use by process ", by));
  }
  const std::string text = std::to_string(::getpid());
  if (::ftruncate(descriptor_, 0) != 0 || ::pwrite(descriptor_, text.data(), text.size(), 0) < 0) {
    const int error = errno;
    ::close(descriptor_);
    throw StateFileError(detail::concat("cannot write ", path, ": ", reason(error)));
  }
}

DirectoryLock::~DirectoryLock() { ::close(descriptor_); }

}  // namespace spectralclip::lab
