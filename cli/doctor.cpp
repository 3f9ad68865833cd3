// SPDX-License-Identifier: Apache-2.0
// `spectralclip doctor`: what this program is and runs on, and what is missing.
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <thread>

#include "commands.h"
#include "config/source.h"
#include "data/locate.h"
#include "report/page.h"
#include "self_path.h"
#include "spectralclip/version.h"
#include "training/training.h"

namespace spectralclip::cli {
namespace {

void line(const char* what, const std::string& value) { fmt::print("{:<18} {}\n", what, value); }

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "not set" : value;
}

// What ONEDNN_MAX_CPU_ISA may be set to, widest first.
constexpr const char* kInstructionSets[] = {"AVX512_CORE_FP16", "AVX512_CORE_BF16", "AVX512_CORE", "AVX2", "SSE41"};

// oneDNN reads the variable once a process, so a value is tried by a process of its own.
bool products_work_with(const char* set, const std::string& program) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::setenv("ONEDNN_MAX_CPU_ISA", set, 1);
    if (std::freopen("/dev/null", "w", stdout) == nullptr) ::_exit(127);
    ::execl(program.c_str(), program.c_str(), "doctor", "--sixteen-bit", nullptr);
    ::_exit(127);
  }
  int status = 0;
  return child > 0 && ::waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

std::string widest_working_instructions() {
  const std::string program = self_path();
  for (const char* const set : kInstructionSets) {
    if (products_work_with(set, program)) return set;
  }
  return {};
}

// NAME=VALUE that makes 16-bit products work, or makes us do without them; empty where nothing is needed.
std::string needed_setting() {
  if (lab::sixteen_bit_failure().empty()) return {};
  const std::string set = widest_working_instructions();
  return set.empty() ? "SPECTRALCLIP_SIXTEEN_BIT=off" : "ONEDNN_MAX_CPU_ISA=" + set;
}

std::string sixteen_bit_text() {
  const std::string failure = lab::sixteen_bit_failure();
  return failure.empty() ? "work" : fmt::format("FAIL ({}): export {}", failure, needed_setting());
}

// For shells: eval "$(spectralclip doctor --environment)".
int print_environment() {
  const std::string setting = needed_setting();
  if (setting.empty()) return kDone;
  fmt::print("export {}\n", setting);
  fmt::print(stderr, "spectralclip: 16-bit products fail here ({}); {} helps\n", lab::sixteen_bit_failure(), setting);
  return kDone;
}

int examine() {
  int missing = 0;
  line("spectralclip", version());
  line("SIMD kernels", simd_target());
  line("hardware threads", std::to_string(std::thread::hardware_concurrency()));
  line("LibTorch", lab::torch_text());
  line("16-bit products", sixteen_bit_text());
  line("OMP_NUM_THREADS", environment("OMP_NUM_THREADS"));
  line("presets", std::to_string(lab::presets().size()));
  const std::size_t plotly = lab::report::embedded_page().plotly.size();
  line("plotly.js", plotly > 0 ? fmt::format("inside, {:.1f} MB", static_cast<double>(plotly) * 1e-6) : "MISSING");
  if (plotly == 0) ++missing;
  line("run directory", ::access(".", W_OK) == 0 ? "can be written here" : "this folder is read-only: give --out");
  for (const lab::data::DataSet& set : lab::data::data_sets()) {
    const std::vector<std::string> files = find_data(set);
    line(("data: " + set.name).c_str(),
         files.empty() ? "not found; `spectralclip data` says how to get it" : files.front());
  }
  fmt::print("{}\n", missing == 0 ? "nothing is missing that the tasks need" : "something is missing, see above");
  return missing == 0 ? kDone : 1;
}

}  // namespace

void add_doctor(CLI::App& program, int& status) {
  auto* command = program.add_subcommand("doctor", "version, SIMD target, threads, LibTorch, and what is missing");
  auto environment = std::make_shared<bool>(false), sixteen_bit = std::make_shared<bool>(false);
  command->add_flag(
      "--environment", *environment,
      "print only what a shell should set for this processor: eval \"$(spectralclip doctor --environment)\"");
  command->add_flag("--sixteen-bit", *sixteen_bit, "try bfloat16 and float16 products only; exit code 0 if they work");
  command->callback([&status, environment, sixteen_bit] {
    if (*sixteen_bit) {
      const std::string failure = lab::sixteen_bit_failure();
      fmt::print("{}\n", failure.empty() ? "16-bit products work" : failure);
      status = failure.empty() ? kDone : 1;
    } else {
      status = *environment ? print_environment() : examine();
    }
  });
}

}  // namespace spectralclip::cli
