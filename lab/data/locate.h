// SPDX-License-Identifier: Apache-2.0
// The data sets that experiments can use: where they are looked for, and how to get each from its home. Nothing is
// fetched by itself.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace spectralclip::lab::data {

// A file whose content is known.
struct KnownFile {
  std::string name;  // last part of its path
  std::int64_t bytes = 0;
  std::string sha256;  // empty: only the size is known
  std::string what;
  bool only = false;  // whatever else bears this name is wrong (else: it may be a file of one's own)
};

struct DataSet {
  std::string name;
  std::string help;
  std::string home;                   // the page that speaks for it
  std::string get;                    // shell commands, to be run in a data folder
  std::vector<std::string> patterns;  // globs below a data folder; the first that matches anything decides
  std::vector<std::string> archives;  // globs of what is there but must be unpacked first
  std::vector<KnownFile> known;
};

[[nodiscard]] const std::vector<DataSet>& data_sets();
[[nodiscard]] const DataSet& data_set(std::string_view name);  // throws InvalidArgument, listing the names

// $SPECTRALCLIP_DATA, ./data, "data" beside the run directory (if one is given), ../shared/data, ~/.cache/spectralclip.
[[nodiscard]] std::vector<std::string> data_folders(const std::string& run_directory = {});

// All files of the set in the first folder that has any, sorted by name; empty when there is none.
[[nodiscard]] std::vector<std::string> find_data(const DataSet& set, const std::string& run_directory = {});
// Archives of the set in any folder.
[[nodiscard]] std::vector<std::string> find_archives(const DataSet& set);
// The same as find_data, but throws DataError saying where was looked and the commands that get the set.
[[nodiscard]] std::vector<std::string> locate(std::string_view name, const std::string& run_directory = {});
// What `path` names if it is given (file, folder or glob; DataError when there is nothing), else locate(name).
[[nodiscard]] std::vector<std::string> locate_or(const std::string& path, std::string_view name,
                                                 const std::string& run_directory = {});

// Files that match a glob ("*", "?", "[a-z]" in any part), sorted; a folder stands for the files in it.
[[nodiscard]] std::vector<std::string> glob_files(const std::string& pattern);

}  // namespace spectralclip::lab::data
