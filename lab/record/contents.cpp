// SPDX-License-Identifier: Apache-2.0
#include "record/contents.h"

#include <filesystem>

#include "require.h"

namespace spectralclip::lab {
namespace {

namespace fs = std::filesystem;
constexpr int kLevels = 3;  // NAME/seed-N, and one folder around

bool has(const fs::path& directory, const char* file) {
  std::error_code unreadable;  // counts as absent
  return fs::exists(directory / file, unreadable);
}

// The directory's own files say it.
Contents own_contents(const fs::path& directory) {
  for (const char* const file : {"sweep.toml", "trials.jsonl", "proposed.jsonl"})
    if (has(directory, file)) return Contents::sweep;
  for (const char* const file : {"config.toml", "checkpoint.bin", "metrics.jsonl"})
    if (has(directory, file)) return Contents::run;
  return Contents::nothing;
}

bool has_runs_below(const fs::path& directory, int levels) {
  std::error_code error;
  for (auto entry = fs::directory_iterator(directory, error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    std::error_code ignored;
    if (!entry->is_directory(ignored)) continue;
    if (own_contents(entry->path()) != Contents::nothing) return true;
    if (levels > 1 && has_runs_below(entry->path(), levels - 1)) return true;
  }
  return false;
}

const char* text_of(Contents contents) {
  switch (contents) {
    case Contents::run:
      return "a run";
    case Contents::sweep:
      return "a sweep";
    case Contents::folder_of_runs:
      return "a folder of runs";
    case Contents::nothing:
      break;
  }
  return "nothing";
}

void require_outside(const fs::path& directory) {
  std::error_code error;
  fs::path above = fs::absolute(directory, error).lexically_normal();
  if (!above.has_filename()) above = above.parent_path();
  for (int level = 0; level < kLevels && above.has_relative_path(); ++level) {
    const std::string part = above.filename().string();
    above = above.parent_path();
    const Contents around = own_contents(above);
    if (around == Contents::sweep && (part == "trials" || part == "best")) return;  // where a sweep puts its own
    SPECTRALCLIP_REQUIRE(around == Contents::nothing, directory.string(), " lies inside of ", above.string(),
                         ", which holds ", text_of(around), ": choose another directory");
  }
}

}  // namespace

Contents contents_of(const std::string& directory) {
  const Contents own = own_contents(directory);
  if (own != Contents::nothing) return own;
  return has_runs_below(directory, kLevels) ? Contents::folder_of_runs : Contents::nothing;
}

void require_place_for(Contents wanted, const std::string& directory) {
  const Contents there = contents_of(directory);
  SPECTRALCLIP_REQUIRE(there == Contents::nothing || there == wanted, directory, " holds ", text_of(there), ", and ",
                       text_of(wanted), " is to be written: choose another directory");
  require_outside(directory);
}

}  // namespace spectralclip::lab
