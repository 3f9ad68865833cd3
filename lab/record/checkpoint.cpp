// SPDX-License-Identifier: Apache-2.0
#include "record/checkpoint.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>
#include <system_error>

#include "clipper/byte_stream.h"

namespace spectralclip::lab {
namespace {

constexpr std::string_view kMagic = "spectralclip run";
constexpr std::uint32_t kVersion = 2;
constexpr std::size_t kTailBytes = 16;        // offset of the directory, checksum
constexpr std::size_t kBlock = 1 << 20;       // read at once for the checksum
constexpr std::uint64_t kMostHead = 1 << 24;  // no configuration or directory is longer

// One that is open for reading; throws with the system's reason.
class ReadFile {
 public:
  explicit ReadFile(const std::string& path) : descriptor_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    struct stat info {};
    if (descriptor_ < 0 || ::fstat(descriptor_, &info) != 0) fail(errno);
    size_ = static_cast<std::uint64_t>(info.st_size);
  }
  ~ReadFile() { ::close(descriptor_); }
  ReadFile(const ReadFile&) = delete;
  ReadFile& operator=(const ReadFile&) = delete;

  [[nodiscard]] std::uint64_t size() const noexcept { return size_; }
  void read(std::uint64_t offset, std::span<std::uint8_t> out) const {
    for (std::size_t done = 0; done < out.size();) {
      const ssize_t count =
          ::pread(descriptor_, out.data() + done, out.size() - done, static_cast<off_t>(offset + done));
      if (count < 0 && errno != EINTR) fail(errno);
      if (count == 0) throw StateFileError("it became shorter while it was read");
      if (count > 0) done += static_cast<std::size_t>(count);
    }
  }
  [[nodiscard]] Bytes bytes(std::uint64_t offset, std::uint64_t count) const {
    Bytes out(static_cast<std::size_t>(count));
    read(offset, out);
    return out;
  }

 private:
  [[noreturn]] static void fail(int error) {
    throw StateFileError("it cannot be read: " + std::generic_category().message(error));
  }
  int descriptor_;
  std::uint64_t size_ = 0;
};

Bytes encoded(const CheckpointHead& head) {
  ByteWriter out;
  out.put(kMagic);
  out.put(kVersion);
  out.put(std::string_view(head.config));
  out.put(head.step);
  out.put(head.seconds);
  return std::move(out).take();
}

CheckpointHead decoded(std::span<const std::uint8_t> bytes) {
  ByteReader in(bytes);
  CheckpointHead head;
  if (in.text("magic") != kMagic) throw StateFileError("it is no checkpoint of a run");
  const auto version = in.integer<std::uint32_t>("version");
  if (version != kVersion)
    throw StateFileError(detail::concat("it has version ", version, ", this program reads version ", kVersion));
  head.config = in.text("config");
  head.step = in.integer<std::int64_t>("step");
  head.seconds = in.float64("seconds");
  return head;
}

void require_magic(const ReadFile& file) {
  const std::size_t bytes = 4 + kMagic.size();
  if (file.size() < bytes + kTailBytes) throw StateFileError("it is too short for a checkpoint");
  const Bytes start = file.bytes(0, bytes);
  if (std::string_view(reinterpret_cast<const char*>(start.data()) + 4, kMagic.size()) != kMagic)
    throw StateFileError("it is no checkpoint of a run");
}

void require_checksum(const ReadFile& file) {
  StreamChecksum checksum;
  Bytes block(kBlock);
  const std::uint64_t end = file.size() - 8;
  for (std::uint64_t at = 0; at < end; at += block.size()) {
    if (end - at < block.size()) block.resize(static_cast<std::size_t>(end - at));
    file.read(at, block);
    checksum.update(block);
  }
  if (ByteReader(file.bytes(end, 8)).integer<std::uint64_t>("checksum") != checksum.value())
    throw StateFileError("it is truncated or damaged (the checksum differs)");
}

}  // namespace

void StreamChecksum::update(std::span<const std::uint8_t> bytes) noexcept {
  constexpr std::uint64_t kPrime = 0x100000001b3ULL;
  std::size_t i = 0;
  const auto one = [&](std::uint8_t byte) {
    word_ |= static_cast<std::uint64_t>(byte) << (8 * (length_ % 8));
    if (++length_ % 8 != 0) return;
    hash_ = (hash_ ^ word_) * kPrime;
    word_ = 0;
  };
  while (i < bytes.size() && length_ % 8 != 0) one(bytes[i++]);
  std::uint64_t hash = hash_;
  for (; i + 8 <= bytes.size(); i += 8, length_ += 8) {
    std::uint64_t word = 0;
    for (std::size_t k = 8; k-- > 0;) word = word << 8 | bytes[i + k];
    hash = (hash ^ word) * kPrime;
  }
  hash_ = hash;
  while (i < bytes.size()) one(bytes[i++]);
}

std::uint64_t StreamChecksum::value() const noexcept {
  constexpr std::uint64_t kPrime = 0x100000001b3ULL;
  return (((hash_ ^ word_) * kPrime) ^ length_) * kPrime;
}

CheckpointWriter::CheckpointWriter(std::string path, const CheckpointHead& head) : file_(std::move(path)) {
  write(encoded(head));
}

void CheckpointWriter::begin(const std::string& section) { places_.push_back({section, position_, 0}); }

void CheckpointWriter::write(std::span<const std::uint8_t> bytes) {
  file_.write(bytes);
  checksum_.update(bytes);
  position_ += bytes.size();
  if (!places_.empty()) places_.back().size += bytes.size();
}

void CheckpointWriter::commit() {
  const std::uint64_t directory = position_;
  ByteWriter out;
  out.put(static_cast<std::uint64_t>(places_.size()));
  for (const Place& place : places_) {
    out.put(std::string_view(place.name));
    out.put(place.offset);
    out.put(place.size);
  }
  out.put(directory);
  write(out.bytes());
  ByteWriter sum;
  sum.put(checksum_.value());
  file_.write(sum.bytes());
  file_.commit();
}

struct CheckpointFile::Parts {
  std::string path;
  ReadFile file;
  CheckpointHead head = {};
  struct Place {
    std::uint64_t offset = 0, size = 0;
  };
  std::map<std::string, Place> places = {};

  explicit Parts(const std::string& name) : path(name), file(name) {
    require_magic(file);
    require_checksum(file);
    const std::uint64_t end = file.size() - kTailBytes;
    const auto directory = ByteReader(file.bytes(end, 8)).integer<std::uint64_t>("directory");
    if (directory > end || end - directory > kMostHead) throw StateFileError("its directory lies outside it");
    const Bytes bytes = file.bytes(directory, end - directory);
    ByteReader in(bytes);
    std::uint64_t first = directory;
    for (std::size_t left = in.count(20, "sections"); left > 0; --left) {
      const std::string section = in.text("section name");
      Place place;
      place.offset = in.integer<std::uint64_t>("offset");
      place.size = in.integer<std::uint64_t>("size");
      if (place.offset > directory || place.size > directory - place.offset)
        throw StateFileError("section \"" + section + "\" lies outside it");
      first = std::min(first, place.offset);
      places[section] = place;
    }
    head = decoded(file.bytes(0, std::min(first, kMostHead)));
  }
};

CheckpointFile::CheckpointFile(const std::string& path) {
  try {
    parts_ = std::make_unique<Parts>(path);
  } catch (const StateFileError& error) {
    throw StateFileError(detail::concat("cannot resume from ", path, ": ", error.what()));
  }
}
CheckpointFile::~CheckpointFile() = default;
CheckpointFile::CheckpointFile(CheckpointFile&&) noexcept = default;

const CheckpointHead& CheckpointFile::head() const noexcept { return parts_->head; }

std::uint64_t CheckpointFile::size(const std::string& section) const {
  const auto found = parts_->places.find(section);
  if (found == parts_->places.end())
    throw StateFileError(detail::concat(parts_->path, " has no section \"", section, "\""));
  return found->second.size;
}

void CheckpointFile::read(const std::string& section, std::uint64_t offset, std::span<std::uint8_t> out) const {
  const std::uint64_t bytes = size(section);
  if (offset > bytes || out.size() > bytes - offset)
    throw StateFileError(detail::concat(parts_->path, ": section \"", section, "\" has ", bytes, " bytes, wanted ",
                                        out.size(), " from ", offset, " on"));
  parts_->file.read(parts_->places.at(section).offset + offset, out);
}

}  // namespace spectralclip::lab
