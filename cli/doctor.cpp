// SPDX-License-Identifier: Apache-2.0
// `spectralclip doctor`: what this program is and runs on, and what is missing.
#include <fmt/format.h>
#include <unistd.h>

#include <thread>

#include "commands.h"
#include "config/source.h"
#include "data_sets.h"
#include "report/page.h"
#include "spectralclip/version.h"
#include "training/training.h"

namespace spectralclip::cli {
namespace {

void line(const char* what, const std::string& value) { fmt::print("{:<18} {}\n", what, value); }

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "not set" : value;
}

int examine() {
  int missing = 0;
  line("spectralclip", version());
  line("SIMD kernels", simd_target());
  line("hardware threads", std::to_string(std::thread::hardware_concurrency()));
  line("LibTorch", lab::torch_text());
  line("OMP_NUM_THREADS", environment("OMP_NUM_THREADS"));
  line("presets", std::to_string(lab::presets().size()));
  const std::size_t plotly = lab::report::embedded_page().plotly.size();
  line("plotly.js", plotly > 0 ? fmt::format("inside, {:.1f} MB", static_cast<double>(plotly) * 1e-6) : "MISSING");
  if (plotly == 0) ++missing;
  line("run directory", ::access(".", W_OK) == 0 ? "can be written here" : "this folder is read-only: give --out");
  for (const DataSet& set : data_sets()) {
    const std::string where = find_data(set);
    line(("data: " + set.name).c_str(), where.empty() ? "not found; `spectralclip data` says how to get it" : where);
  }
  fmt::print("{}\n", missing == 0 ? "nothing is missing that the tasks need" : "something is missing, see above");
  return missing == 0 ? kDone : 1;
}

}  // namespace

void add_doctor(CLI::App& program, int& status) {
  auto* command = program.add_subcommand("doctor", "version, SIMD target, threads, LibTorch, and what is missing");
  command->callback([&status] { status = examine(); });
}

}  // namespace spectralclip::cli
