// SPDX-License-Identifier: Apache-2.0
// Facts about the machine and the build that every figure depends on.
#pragma once

#include <Eigen/Core>
#include <fstream>
#include <string>
#include <thread>

#include "spectralclip/version.h"

namespace spectralclip::bench {

struct Machine {
  std::string cpu = "unknown";
  unsigned hardware_threads = std::thread::hardware_concurrency();
  std::string load = "unknown";  // 1-minute load average when the run began: figures of a busy machine are not figures
  std::string simd = simd_target();
  std::string compiler = "unknown";
  std::string eigen = std::to_string(EIGEN_WORLD_VERSION) + "." + std::to_string(EIGEN_MAJOR_VERSION) + "." +
                      std::to_string(EIGEN_MINOR_VERSION) + " (" + Eigen::SimdInstructionSetsInUse() + ")";
  std::string library = version();
};

inline std::string cpu_model() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const auto colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown";
}

inline Machine describe_machine() {
  Machine machine;
  machine.cpu = cpu_model();
  std::ifstream("/proc/loadavg") >> machine.load;
#if defined(__clang__)
  machine.compiler = "clang " __clang_version__;
#elif defined(__GNUC__)
  machine.compiler = "gcc " __VERSION__;
#endif
  return machine;
}

}  // namespace spectralclip::bench
