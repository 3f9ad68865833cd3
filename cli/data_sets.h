// SPDX-License-Identifier: Apache-2.0
// The data sets that experiments can use, where they are looked for, and how to get them. Nothing is fetched by itself.
#pragma once

#include <string>
#include <vector>

namespace spectralclip::cli {

struct DataSet {
  std::string name;
  std::string help;
  std::vector<std::string> files;  // below the data folder; any one of them will do
  std::string command;             // that gets it, run in the data folder
};

[[nodiscard]] const std::vector<DataSet>& data_sets();
// $SPECTRALCLIP_DATA, then ./data, then ~/.cache/spectralclip.
[[nodiscard]] std::vector<std::string> data_folders();
// The first file found; empty when there is none.
[[nodiscard]] std::string find_data(const DataSet& set);

}  // namespace spectralclip::cli
