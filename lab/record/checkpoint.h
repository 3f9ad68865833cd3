// SPDX-License-Identifier: Apache-2.0
// A run's state as one file: sections with a directory, a version and a checksum, written a piece at a time and
// atomically, so that after a kill at any moment it is the old one or the new one. Reading throws StateFileError with
// the path and what is wrong.
//
//   magic, version, config, step, seconds | the sections, one after the other | their count, for each name, offset,
//   size | offset of the count (8 bytes) | checksum of all before (8 bytes)
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "clipper/atomic_file.h"
#include "record/state.h"

namespace spectralclip::lab {

struct CheckpointHead {
  std::string config;     // the run's config.toml: a checkpoint of another configuration is refused
  std::int64_t step = 0;  // the last one done
  double seconds = 0;     // of work so far
};

// Of bytes that come in pieces: FNV-1a over words of eight bytes. Each round is a bijection of the running value, so a
// single changed word changes the result; about 6 GB/s.
class StreamChecksum {
 public:
  void update(std::span<const std::uint8_t> bytes) noexcept;
  [[nodiscard]] std::uint64_t value() const noexcept;  // more may follow

 private:
  std::uint64_t hash_ = 0xcbf29ce484222325ULL;
  std::uint64_t word_ = 0;  // bytes that are not eight yet
  std::uint64_t length_ = 0;
};

class CheckpointWriter final : public StateWriter {
 public:
  CheckpointWriter(std::string path, const CheckpointHead& head);
  void begin(const std::string& section) override;
  void write(std::span<const std::uint8_t> bytes) override;
  void commit();  // without it the old file stays

 private:
  struct Place {
    std::string name;
    std::uint64_t offset, size;
  };
  AtomicFile file_;
  StreamChecksum checksum_;
  std::vector<Place> places_;
  std::uint64_t position_ = 0;
};

class CheckpointFile final : public StateReader {
 public:
  // Reads all of it once, for the checksum.
  explicit CheckpointFile(const std::string& path);
  ~CheckpointFile() override;
  CheckpointFile(CheckpointFile&&) noexcept;

  [[nodiscard]] const CheckpointHead& head() const noexcept;
  [[nodiscard]] std::uint64_t size(const std::string& section) const override;
  void read(const std::string& section, std::uint64_t offset, std::span<std::uint8_t> out) const override;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace spectralclip::lab
