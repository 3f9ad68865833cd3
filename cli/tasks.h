// SPDX-License-Identifier: Apache-2.0
// All tasks of the program.
#pragma once

#include <string_view>
#include <vector>

#include "config/source.h"
#include "engine/experiment.h"

namespace spectralclip::cli {

[[nodiscard]] const std::vector<lab::TaskInfo>& all_tasks();
// Throws InvalidArgument listing the names.
[[nodiscard]] const lab::TaskInfo& find_task(std::string_view name);
// Throws InvalidArgument when a key that was set belongs to a group that the task does not read.
void require_read(const lab::TaskInfo& task, const lab::Resolved& resolved);

}  // namespace spectralclip::cli
