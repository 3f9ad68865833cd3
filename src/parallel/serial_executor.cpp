// SPDX-License-Identifier: Apache-2.0
// The executor that runs everything on the calling thread; shared by all, because it holds nothing.
#include "spectralclip/executor.h"

namespace spectralclip {
namespace {

class SerialExecutor final : public Executor {
 public:
  [[nodiscard]] int concurrency() const noexcept override { return 1; }
  void run(std::int64_t count, TaskRef task) override {
    for (std::int64_t i = 0; i < count; ++i) task(i);
  }
};

}  // namespace

Executor& serial_executor() noexcept {
  static SerialExecutor executor;
  return executor;
}

}  // namespace spectralclip
