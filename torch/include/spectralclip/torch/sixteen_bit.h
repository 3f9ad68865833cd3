// SPDX-License-Identifier: Apache-2.0
// Can LibTorch multiply bfloat16 and float16 matrices on this processor? Some machines advertise instructions (AMX)
// that they cannot run: there such a product throws "could not create a primitive" or ends the process with SIGILL.
// Setting ONEDNN_MAX_CPU_ISA=AVX512_CORE_FP16 (or lower) before the first product cures it; `spectralclip doctor` finds
// the value.
#pragma once

#include <chrono>
#include <functional>
#include <string>

namespace spectralclip::torch {

// Empty where the products work, otherwise what went wrong ("bfloat16: SIGILL"). Tried once a process, in a child
// process, so that nothing can happen to this one; about 20 ms. SPECTRALCLIP_SIXTEEN_BIT=on or off answers instead.
[[nodiscard]] const std::string& sixteen_bit_failure();

// Runs work in a forked child on one thread and returns what became of it: empty, the text of its exception, the name
// of the signal that ended it, or that it did not answer in time. What work writes is lost with the child.
[[nodiscard]] std::string failure_in_child(const std::function<void()>& work,
                                           std::chrono::milliseconds patience = std::chrono::seconds(30));

}  // namespace spectralclip::torch
