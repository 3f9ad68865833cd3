// SPDX-License-Identifier: Apache-2.0
// One function a command: it adds itself to the program and, when called, leaves its exit code in `status`.
#pragma once

#include <CLI/CLI.hpp>

namespace spectralclip::cli {

// Exit codes. Misuse and failures throw and become 2 and 1 in main.cpp.
inline constexpr int kDone = 0;
inline constexpr int kDiverged = 3;
inline constexpr int kStopped = 130;  // as a shell says it of Ctrl-C

void add_run(CLI::App& program, int& status);
void add_sweep(CLI::App& program, int& status);
void add_sample(CLI::App& program, int& status);
void add_results(CLI::App& program, int& status);
void add_export_model(CLI::App& program, int& status);
void add_report(CLI::App& program, int& status);
void add_export(CLI::App& program, int& status);
void add_list(CLI::App& program, int& status);
void add_propose(CLI::App& program, int& status);
void add_data(CLI::App& program, int& status);
void add_bench(CLI::App& program, int& status);
void add_doctor(CLI::App& program, int& status);
void add_completion(CLI::App& program, int& status);

}  // namespace spectralclip::cli
