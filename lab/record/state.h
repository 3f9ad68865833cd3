// SPDX-License-Identifier: Apache-2.0
// The state of an experiment as named sections of bytes, written and read a piece at a time: gigabytes of weights are
// nowhere whole a second time.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace spectralclip::lab {

using Bytes = std::vector<std::uint8_t>;
using Sections = std::map<std::string, Bytes>;

class StateWriter {
 public:
  virtual ~StateWriter() = default;
  virtual void begin(const std::string& section) = 0;  // each name once
  virtual void write(std::span<const std::uint8_t> bytes) = 0;
  void put(const std::string& section, std::span<const std::uint8_t> bytes) {
    begin(section);
    write(bytes);
  }
};

// All throw StateFileError when the section is not there or too short.
class StateReader {
 public:
  virtual ~StateReader() = default;
  [[nodiscard]] virtual std::uint64_t size(const std::string& section) const = 0;
  virtual void read(const std::string& section, std::uint64_t offset, std::span<std::uint8_t> out) const = 0;
  [[nodiscard]] Bytes bytes(const std::string& section) const {
    Bytes all(static_cast<std::size_t>(size(section)));
    read(section, 0, all);
    return all;
  }
};

// In memory: for states that are small, and for tests.
class MemoryState final : public StateWriter, public StateReader {
 public:
  MemoryState() = default;
  explicit MemoryState(Sections sections) : sections_(std::move(sections)) {}

  void begin(const std::string& section) override;
  void write(std::span<const std::uint8_t> bytes) override;
  [[nodiscard]] std::uint64_t size(const std::string& section) const override;
  void read(const std::string& section, std::uint64_t offset, std::span<std::uint8_t> out) const override;
  [[nodiscard]] const Sections& sections() const noexcept { return sections_; }

 private:
  Sections sections_;
  std::string open_;
};

}  // namespace spectralclip::lab
