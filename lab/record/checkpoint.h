// SPDX-License-Identifier: Apache-2.0
// A run's state as one file: named sections with a version and a checksum, written atomically, so that after a kill at
// any moment it is the old one or the new one. Reading throws StateFileError with the path and what is wrong.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "record/recorder.h"

namespace spectralclip::lab {

struct Checkpoint {
  std::string config;     // the run's config.toml: a checkpoint of another configuration is refused
  std::int64_t step = 0;  // the last one done
  double seconds = 0;     // of work so far
  Sections sections;
};

[[nodiscard]] std::vector<std::uint8_t> encode(const Checkpoint& checkpoint);
[[nodiscard]] Checkpoint decode(const std::vector<std::uint8_t>& bytes);

void write_checkpoint(const std::string& path, const Checkpoint& checkpoint);
[[nodiscard]] Checkpoint read_checkpoint(const std::string& path);

}  // namespace spectralclip::lab
