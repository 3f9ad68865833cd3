// SPDX-License-Identifier: Apache-2.0
#include "clipper/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <system_error>

#include "require.h"
#include "spectralclip/error.h"

namespace spectralclip {
namespace {

[[noreturn]] void fail(const char* what, const std::string& path, int error) {
  throw StateFileError(detail::concat("cannot ", what, " ", path, ": ", std::generic_category().message(error)));
}

class Descriptor {
 public:
  explicit Descriptor(int descriptor) noexcept : descriptor_(descriptor) {}
  ~Descriptor() { (void)close(); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  [[nodiscard]] int get() const noexcept { return descriptor_; }
  [[nodiscard]] bool valid() const noexcept { return descriptor_ >= 0; }
  // 0 or errno. Network file systems report a full disk only here.
  int close() noexcept {
    if (descriptor_ < 0) return 0;
    const int result = ::close(descriptor_);
    descriptor_ = -1;
    return result == 0 ? 0 : errno;
  }

 private:
  int descriptor_;
};

// Removes the temporary file unless it was renamed.
class TemporaryFile {
 public:
  explicit TemporaryFile(std::string path) : path_(std::move(path)) {}
  ~TemporaryFile() {
    if (!path_.empty()) (void)::unlink(path_.c_str());
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  [[nodiscard]] const char* path() const noexcept { return path_.c_str(); }
  void renamed() noexcept { path_.clear(); }

 private:
  std::string path_;
};

std::string directory_of(const std::string& path) {
  const std::size_t slash = path.find_last_of('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

// Unique among processes by the process id and within one by a counter; O_EXCL catches the rest.
std::string temporary_name(const std::string& path) {
  static std::atomic<unsigned> counter{0};
  return detail::concat(path, ".tmp.", ::getpid(), ".", counter++);
}

// After a rename the data is safe; the directory entry is once this returns. File systems that cannot sync a
// directory say EINVAL, a directory that may not be read cannot be opened: neither endangers either file.
int sync_directory(const std::string& directory) noexcept {
  const Descriptor descriptor(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!descriptor.valid() || ::fsync(descriptor.get()) == 0 || errno == EINVAL) return 0;
  return errno;
}

void require_replaceable(const std::string& path) {
  struct stat status {};
  if (path.empty()) throw StateFileError("cannot write a state file: the path is empty");
  if (::stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode))
    throw StateFileError("cannot write " + path + ": it exists and is not a regular file");
}

}  // namespace

int write_fully(int descriptor, std::span<const std::uint8_t> bytes) noexcept {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    if (written == 0) return ENOSPC;
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return 0;
}

struct AtomicFile::Parts {
  std::string path;
  Descriptor descriptor;
  TemporaryFile temporary;
};

AtomicFile::AtomicFile(std::string path) {
  require_replaceable(path);
  std::string name = temporary_name(path);
  const int descriptor = ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (descriptor < 0) fail("create a temporary file beside", path, errno);
  parts_.reset(new Parts{std::move(path), Descriptor(descriptor), TemporaryFile(std::move(name))});
}

AtomicFile::~AtomicFile() = default;

void AtomicFile::write(std::span<const std::uint8_t> bytes) {
  if (const int error = write_fully(parts_->descriptor.get(), bytes); error != 0) fail("write", parts_->path, error);
}

void AtomicFile::commit() {
  const std::string& path = parts_->path;
  if (::fsync(parts_->descriptor.get()) != 0) fail("write", path, errno);
  if (const int error = parts_->descriptor.close(); error != 0) fail("write", path, error);
  if (::rename(parts_->temporary.path(), path.c_str()) != 0) fail("replace", path, errno);
  parts_->temporary.renamed();
  if (const int error = sync_directory(directory_of(path)); error != 0) fail("sync the directory of", path, error);
}

void write_file_atomically(const std::string& path, std::span<const std::uint8_t> bytes) {
  AtomicFile file(path);
  file.write(bytes);
  file.commit();
}

std::vector<std::uint8_t> read_file(const std::string& path) {
  const Descriptor descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!descriptor.valid()) fail("open", path, errno);
  struct stat status {};
  if (::fstat(descriptor.get(), &status) != 0) fail("read", path, errno);
  if (!S_ISREG(status.st_mode)) throw StateFileError("cannot read " + path + ": not a regular file");
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(status.st_size));
  std::size_t filled = 0;
  while (filled < bytes.size()) {
    const ssize_t count = ::read(descriptor.get(), bytes.data() + filled, bytes.size() - filled);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail("read", path, errno);
    if (count == 0) break;  // shrank meanwhile: the decoder says what is missing
    filled += static_cast<std::size_t>(count);
  }
  bytes.resize(filled);
  return bytes;
}

void write_text_atomically(const std::string& path, std::string_view text) {
  write_file_atomically(path, {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()});
}

std::string read_text(const std::string& path) {
  const std::vector<std::uint8_t> bytes = read_file(path);
  return {bytes.begin(), bytes.end()};
}

}  // namespace spectralclip
