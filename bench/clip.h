// SPDX-License-Identifier: Apache-2.0
// The benchmark of the core, as a function: for the program bench_clip and for `spectralclip bench`.
#pragma once

namespace spectralclip::bench {

// Takes the arguments of a program; --help lists them. Returns non-zero when a result was wrong, not when one was slow.
int clip_benchmark(int argc, char** argv);

}  // namespace spectralclip::bench
