// SPDX-License-Identifier: Apache-2.0
// All tasks that train with LibTorch: one a folder of lab/tasks, found when the program is built. A folder NAME has
// keys.h with `KeyGroup NAME_keys()` (without torch) and task.cpp with `TaskInfo NAME_task()`.
#pragma once

#include <vector>

#include "engine/experiment.h"

namespace spectralclip::lab {

[[nodiscard]] std::vector<TaskInfo> training_tasks();

}  // namespace spectralclip::lab
