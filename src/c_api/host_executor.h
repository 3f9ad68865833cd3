// SPDX-License-Identifier: Apache-2.0
// A host's run() callback as an Executor. Exceptions of tasks are kept on our side of the C frames and rethrown after
// the callback returned; a callback that did not run every task is found out rather than believed.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>

#include "require.h"
#include "spectralclip/c_api.h"
#include "spectralclip/executor.h"

namespace spectralclip::c_api {

class HostExecutor final : public Executor {
 public:
  explicit HostExecutor(const sclip_executor& executor) : executor_(executor) {
    SPECTRALCLIP_REQUIRE(executor.run != nullptr, "executor.run is NULL");
    SPECTRALCLIP_REQUIRE(executor.concurrency >= 1, "executor.concurrency = ", executor.concurrency, " is below 1");
  }
  [[nodiscard]] int concurrency() const noexcept override { return executor_.concurrency; }

  void run(std::int64_t count, TaskRef task) override {
    if (count <= 0) return;
    Job job(task);
    executor_.run(executor_.context, count, &Job::call, &job);
    if (job.failure) std::rethrow_exception(job.failure);
    if (job.calls != count)
      throw Error(detail::concat("the host's executor made ", job.calls.load(), " of ", count, " calls"));
  }

 private:
  struct Job {
    explicit Job(const TaskRef& task_) : task(task_) {}  // const: a copy, not a reference to a reference
    static void call(void* context, std::int64_t i) noexcept {
      Job& job = *static_cast<Job*>(context);
      try {
        job.task(i);
      } catch (...) {
        const std::lock_guard lock(job.mutex);
        if (!job.failure) job.failure = std::current_exception();
      }
      ++job.calls;
    }
    TaskRef task;
    std::atomic<std::int64_t> calls{0};
    std::mutex mutex;
    std::exception_ptr failure;
  };

  sclip_executor executor_;
};

}  // namespace spectralclip::c_api
