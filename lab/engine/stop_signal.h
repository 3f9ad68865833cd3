// SPDX-License-Identifier: Apache-2.0
// Ctrl-C and SIGTERM as a wish: the loop looks between two steps and ends in order. A second Ctrl-C ends at once.
#pragma once

namespace spectralclip::lab {

void watch_stop_signals();
[[nodiscard]] bool stop_requested() noexcept;

}  // namespace spectralclip::lab
