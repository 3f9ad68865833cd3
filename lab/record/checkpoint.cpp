// SPDX-License-Identifier: Apache-2.0
#include "record/checkpoint.h"

#include <span>
#include <string_view>

#include "clipper/atomic_file.h"
#include "clipper/byte_stream.h"

namespace spectralclip::lab {
namespace {

constexpr std::string_view kMagic = "spectralclip run";
constexpr std::uint32_t kVersion = 1;
constexpr std::size_t kChecksumBytes = 8;

std::span<const std::uint8_t> checked(std::span<const std::uint8_t> bytes) {
  const std::size_t magic_bytes = 4 + kMagic.size();
  if (bytes.size() < magic_bytes + kChecksumBytes) throw StateFileError("it is too short for a checkpoint");
  if (ByteReader(bytes.first(magic_bytes)).text("magic") != kMagic)
    throw StateFileError("it is no checkpoint of a run");
  const auto body = bytes.first(bytes.size() - kChecksumBytes);
  if (ByteReader(bytes.last(kChecksumBytes)).integer<std::uint64_t>("checksum") != checksum_of(body))
    throw StateFileError("it is truncated or damaged (the checksum differs)");
  return body;
}

}  // namespace

std::vector<std::uint8_t> encode(const Checkpoint& checkpoint) {
  ByteWriter out;
  out.put(kMagic);
  out.put(kVersion);
  out.put(std::string_view(checkpoint.config));
  out.put(checkpoint.step);
  out.put(checkpoint.seconds);
  out.put(static_cast<std::uint64_t>(checkpoint.sections.size()));
  for (const auto& [name, bytes] : checkpoint.sections) {
    out.put(std::string_view(name));
    out.put(static_cast<std::uint64_t>(bytes.size()));
    for (const std::uint8_t byte : bytes) out.put(byte);
  }
  const std::uint64_t checksum = checksum_of(out.bytes());
  out.put(checksum);
  return std::move(out).take();
}

Checkpoint decode(const std::vector<std::uint8_t>& bytes) {
  ByteReader in(checked(bytes));
  Checkpoint checkpoint;
  (void)in.text("magic");
  const auto version = in.integer<std::uint32_t>("version");
  if (version != kVersion)
    throw StateFileError(detail::concat("it has version ", version, ", this program reads version ", kVersion));
  checkpoint.config = in.text("config");
  checkpoint.step = in.integer<std::int64_t>("step");
  checkpoint.seconds = in.float64("seconds");
  const std::size_t sections = in.count(12, "sections");
  for (std::size_t i = 0; i < sections; ++i) {
    const std::string name = in.text("section name");
    const std::size_t size = in.count(1, "section");
    const auto begin = bytes.begin() + static_cast<std::ptrdiff_t>(in.position());
    checkpoint.sections[name].assign(begin, begin + static_cast<std::ptrdiff_t>(size));
    in.skip(size, "section");
  }
  return checkpoint;
}

void write_checkpoint(const std::string& path, const Checkpoint& checkpoint) {
  write_file_atomically(path, encode(checkpoint));
}

Checkpoint read_checkpoint(const std::string& path) {
  const std::vector<std::uint8_t> bytes = read_file(path);
  try {
    return decode(bytes);
  } catch (const StateFileError& error) {
    throw StateFileError(detail::concat("cannot resume from ", path, ": ", error.what()));
  }
}

}  // namespace spectralclip::lab
