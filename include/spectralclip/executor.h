// SPDX-License-Identifier: Apache-2.0
// Where parallel work runs. The host may supply its own pool (torch's, an MPI rank's, a C callback); results never
// depend on it: blocks and reductions are fixed by shapes alone.
#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>

#include "spectralclip/export.h"

namespace spectralclip {

// A borrowed callable void(int64_t): no allocation, valid for the duration of the call it is passed to.
class TaskRef {
 public:
  template <class Callable>
  requires(!std::is_same_v<std::remove_cv_t<Callable>, TaskRef>)  // copying a TaskRef copies what it refers to
      TaskRef(Callable& callable)  // NOLINT(google-explicit-constructor): borrowed like std::function_ref
      : object_(&callable), call_([](void* object, std::int64_t i) { (*static_cast<Callable*>(object))(i); }) {}
  void operator()(std::int64_t i) const { call_(object_, i); }

 private:
  void* object_;
  void (*call_)(void*, std::int64_t);
};

class SPECTRALCLIP_EXPORT Executor {
 public:
  virtual ~Executor() = default;
  // How many tasks can run at once; used for scheduling only, never for splitting sums.
  [[nodiscard]] virtual int concurrency() const noexcept = 0;
  // Calls task(0) … task(count - 1), each once, handing them out in order; returns when all are done.
  // The first exception thrown by a task is rethrown here.
  virtual void run(std::int64_t count, TaskRef task) = 0;
};

// Runs everything on the calling thread.
[[nodiscard]] SPECTRALCLIP_EXPORT Executor& serial_executor() noexcept;

// A small pool of std::threads; the calling thread works too, so ThreadPool(1) starts none.
class SPECTRALCLIP_EXPORT ThreadPool final : public Executor {
 public:
  explicit ThreadPool(int threads = 0);  // 0: one per hardware thread
  ~ThreadPool() override;
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;
  [[nodiscard]] int concurrency() const noexcept override;
  void run(std::int64_t count, TaskRef task) override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace spectralclip
