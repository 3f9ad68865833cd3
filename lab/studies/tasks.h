// SPDX-License-Identifier: Apache-2.0
// The tasks that need no torch.
#pragma once

#include <vector>

#include "engine/experiment.h"

namespace spectralclip::lab {

[[nodiscard]] std::vector<TaskInfo> study_tasks();

}  // namespace spectralclip::lab
