// SPDX-License-Identifier: Apache-2.0
// The core's work on torch's own threads: as many as torch.set_num_threads says, no second pool beside it.
#pragma once

#include "spectralclip/executor.h"

namespace spectralclip::torch {

class TorchExecutor final : public Executor {
 public:
  [[nodiscard]] int concurrency() const noexcept override;
  void run(std::int64_t count, TaskRef task) override;
};

}  // namespace spectralclip::torch
