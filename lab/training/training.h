// SPDX-License-Identifier: Apache-2.0
// What LibTorch is and can here; tasks that train with it are in tasks/task_list.h. No header of torch, so that the
// command line can include it.
#pragma once

#include <string>

namespace spectralclip::lab {

// "2.13.0 (2 threads by default)".
[[nodiscard]] std::string torch_text();

// Empty, or why LibTorch cannot multiply bfloat16 and float16 matrices here (spectralclip/torch/sixteen_bit.h).
[[nodiscard]] std::string sixteen_bit_failure();

}  // namespace spectralclip::lab
