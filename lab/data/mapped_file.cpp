// SPDX-License-Identifier: Apache-2.0
#include "data/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "data/data_error.h"

namespace spectralclip::lab::data {
namespace {

[[noreturn]] void fail(const std::string& path, int error) {
  throw_data_error("cannot read ", path, ": ", std::generic_category().message(error));
}

struct Descriptor {
  int number;
  ~Descriptor() {
    if (number >= 0) (void)::close(number);
  }
};

}  // namespace

MappedFile::MappedFile(std::string path) : path_(std::move(path)) {
  const Descriptor descriptor{::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (descriptor.number < 0) fail(path_, errno);
  struct stat status {};
  if (::fstat(descriptor.number, &status) != 0) fail(path_, errno);
  if (!S_ISREG(status.st_mode)) throw_data_error("cannot read ", path_, ": it is no regular file");
  const auto size = static_cast<std::size_t>(status.st_size);
  if (size == 0) return;  // nothing to map
  void* const memory = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor.number, 0);
  if (memory == MAP_FAILED) fail(path_, errno);
  bytes_ = {static_cast<const std::byte*>(memory), size};
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) (void)::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)), bytes_(std::exchange(other.bytes_, {})) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

}  // namespace spectralclip::lab::data
