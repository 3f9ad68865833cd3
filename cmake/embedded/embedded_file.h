// SPDX-License-Identifier: Apache-2.0
// A file that became part of the program when it was built; see EmbedFiles.cmake.
#pragma once

#include <string_view>

namespace spectralclip::embedded {

struct EmbeddedFile {
  std::string_view name;  // without folders
  std::string_view text;  // lives as long as the program; followed by a zero byte
};

}  // namespace spectralclip::embedded
