// SPDX-License-Identifier: Apache-2.0
// `spectralclip report`: run and sweep directories -> one HTML file that needs nothing else, not even a network.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace spectralclip::lab::report {

struct ReportOptions {
  std::string title = "spectralclip report";
  std::string command = {};  // how to make it again; stands at the foot of the page
};

struct ReportResult {
  std::size_t runs = 0, sweeps = 0, figures = 0;
  std::vector<std::string> warnings = {};  // what was damaged and left out; the page shows them too
};

// Replaces `output_file` as a whole or not at all. Throws InvalidArgument when a directory has nothing to report and
// StateFileError when the file cannot be written.
ReportResult write_report(const std::vector<std::string>& directories, const std::string& output_file,
                          const ReportOptions& options = {});

}  // namespace spectralclip::lab::report
