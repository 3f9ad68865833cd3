// SPDX-License-Identifier: Apache-2.0
// The data sets that experiments can use: where they are looked for, how to get each from its home, and what its files'
// sums are. Nothing is fetched by itself.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace spectralclip::lab::data {

// One file whose content is known.
struct KnownFile {
  std::string path;        // as it stands below a data folder
  std::int64_t bytes = 0;  // 0: not known
  std::string sha256;      // empty: not known
  std::string what;        // "the official archive", "this copy was re-encoded …"
};

struct DataSet {
  std::string name;  // shakespeare, cifar10, wikitext2, fineweb, gpt2
  std::string help;
  std::string home;                   // the page that speaks for it
  std::string get;                    // shell command, run in a data folder
  std::vector<std::string> patterns;  // globs below a data folder; the first that matches anything decides
  std::vector<KnownFile> known;
};

[[nodiscard]] const std::vector<DataSet>& data_sets();
[[nodiscard]] const DataSet& data_set(std::string_view name);  // throws InvalidArgument, listing the names

// $SPECTRALCLIP_DATA, ./data, "data" beside the run directory (if one is given), ../shared/data, ~/.cache/spectralclip.
[[nodiscard]] std::vector<std::string> data_folders(const std::string& run_directory = {});

// All files of the set in the first folder that has any, sorted by name; empty when there is none.
[[nodiscard]] std::vector<std::string> find_data(const DataSet& set, const std::string& run_directory = {});
// The same for a name, but throws DataError saying where was looked and the command that gets the set.
[[nodiscard]] std::vector<std::string> locate(std::string_view name, const std::string& run_directory = {});
// The path itself if it is given (file, folder or glob; throws DataError when there is nothing), else locate(name).
[[nodiscard]] std::vector<std::string> locate_or(const std::string& path, std::string_view name,
                                                 const std::string& run_directory = {});

// Files that match a glob ("*", "?", "[a-z]" in the last part or any other), sorted; a folder gives its files.
[[nodiscard]] std::vector<std::string> glob_files(const std::string& pattern);

}  // namespace spectralclip::lab::data
