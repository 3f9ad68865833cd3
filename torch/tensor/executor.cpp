// SPDX-License-Identifier: Apache-2.0
#include "tensor/executor.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <atomic>

namespace spectralclip::torch {

int TorchExecutor::concurrency() const noexcept { return at::in_parallel_region() ? 1 : at::get_num_threads(); }

// parallel_for cuts its range in equal parts; layers are not equal, so each thread takes the next one when it is free.
void TorchExecutor::run(std::int64_t count, TaskRef task) {
  const std::int64_t threads = std::min<std::int64_t>(count, concurrency());
  if (threads <= 1) return serial_executor().run(count, task);
  std::atomic<std::int64_t> next{0};
  at::parallel_for(0, threads, 1, [&](std::int64_t, std::int64_t) {
    for (std::int64_t i = next.fetch_add(1); i < count; i = next.fetch_add(1)) task(i);
  });
}

}  // namespace spectralclip::torch
