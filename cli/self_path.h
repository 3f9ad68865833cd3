// SPDX-License-Identifier: Apache-2.0
// This program's own file, to start it again for runs in processes of their own.
#pragma once

#include <filesystem>
#include <string>

namespace spectralclip::cli {

[[nodiscard]] inline std::string self_path() { return std::filesystem::read_symlink("/proc/self/exe").string(); }

}  // namespace spectralclip::cli
