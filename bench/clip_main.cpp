// SPDX-License-Identifier: Apache-2.0
#include "clip.h"

int main(int argc, char** argv) { return spectralclip::bench::clip_benchmark(argc, argv); }
