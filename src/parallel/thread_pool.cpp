// SPDX-License-Identifier: Apache-2.0
// A pool of std::threads for jobs of a few microseconds to milliseconds. Workers join a job through a short critical
// section and leave it the same way, so the caller waits only for those that joined: a sleeping worker delays nobody.
// After an exception the tasks not yet handed out are dropped, as a serial loop would. No work stealing, no
// priorities, no affinity: results do not depend on who runs what.
#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "require.h"
#include "spectralclip/executor.h"

namespace spectralclip {
namespace {

// A worker looks for the next job this often before it sleeps: about 50 microseconds, the gap between two passes over
// one matrix, against about as much for a wake-up by the kernel.
constexpr int kSpins = 1000;
constexpr int kMaxThreads = 4096;

// Set while this thread runs tasks of any pool: a nested run() is then a plain loop and cannot wait for itself.
thread_local bool inside_task = false;

class InsideTask {
 public:
  InsideTask() noexcept { inside_task = true; }
  ~InsideTask() { inside_task = false; }
  InsideTask(const InsideTask&) = delete;
  InsideTask& operator=(const InsideTask&) = delete;
};

void relax() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

template <class Condition>
bool spin_until(Condition condition) noexcept {
  for (int i = 0; i < kSpins; ++i) {
    if (condition()) return true;
    relax();
  }
  return condition();
}

}  // namespace

struct ThreadPool::Impl {
  std::vector<std::thread> workers;
  std::mutex host;  // held for a whole run(): several host threads take turns

  std::mutex mutex;  // guards everything below; the atomics are also read while spinning
  std::condition_variable wake;
  std::condition_variable left;
  std::atomic<std::uint64_t> job{0};  // number of the latest job
  std::atomic<int> inside{0};         // workers that joined it and have not left
  std::atomic<bool> stopping{false};
  bool open = false;  // may still be joined
  const TaskRef* task = nullptr;
  std::int64_t count = 0;
  std::exception_ptr failure;

  alignas(64) std::atomic<std::int64_t> next{0};  // the task to hand out next

  ~Impl() {
    {
      const std::lock_guard lock(mutex);
      stopping = true;
    }
    wake.notify_all();
    for (std::thread& worker : workers) worker.join();
  }

  void work(const TaskRef& job_task, std::int64_t job_count) noexcept {
    const InsideTask mark;
    try {
      for (std::int64_t i = next.fetch_add(1); i < job_count; i = next.fetch_add(1)) job_task(i);
    } catch (...) {
      next = job_count;
      const std::lock_guard lock(mutex);
      if (!failure) failure = std::current_exception();
    }
  }

  void worker_loop() {
    std::uint64_t seen = 0;
    while (true) {
      (void)spin_until([&] { return job != seen || stopping; });
      std::unique_lock lock(mutex);
      wake.wait(lock, [&] { return job != seen || stopping; });
      if (stopping) return;
      seen = job;
      if (!open) continue;  // finished before this worker woke
      ++inside;
      const TaskRef* const job_task = task;
      const std::int64_t job_count = count;
      lock.unlock();
      work(*job_task, job_count);
      lock.lock();
      if (--inside == 0) left.notify_one();
    }
  }

  void publish(std::int64_t job_count, const TaskRef& job_task) {
    {
      const std::lock_guard lock(mutex);
      task = &job_task;
      count = job_count;
      next = 0;
      open = true;
      ++job;
    }
    wake.notify_all();
  }

  // No worker can join any more; returns the first failure once those inside have left.
  std::exception_ptr close() {
    {
      const std::lock_guard lock(mutex);
      open = false;
    }
    (void)spin_until([&] { return inside == 0; });
    std::unique_lock lock(mutex);
    left.wait(lock, [&] { return inside == 0; });
    task = nullptr;
    return std::exchange(failure, nullptr);
  }
};

ThreadPool::ThreadPool(int threads) : impl_(std::make_unique<Impl>()) {
  SPECTRALCLIP_REQUIRE(threads >= 0 && threads <= kMaxThreads, "threads = ", threads, " is not in [0, ", kMaxThreads,
                       "]");
  if (threads == 0) threads = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  impl_->workers.reserve(static_cast<std::size_t>(threads - 1));
  try {
    for (int i = 1; i < threads; ++i) impl_->workers.emplace_back([impl = impl_.get()] { impl->worker_loop(); });
  } catch (const std::system_error& error) {  // those that were started end with impl_
    throw InvalidArgument(detail::concat("threads = ", threads, ": the system started only ", impl_->workers.size() + 1,
                                         " (", error.what(), ")"));
  }
}

ThreadPool::~ThreadPool() = default;

int ThreadPool::concurrency() const noexcept { return static_cast<int>(impl_->workers.size()) + 1; }

void ThreadPool::run(std::int64_t count, TaskRef task) {
  if (count <= 1 || inside_task || impl_->workers.empty()) return serial_executor().run(count, task);
  const std::lock_guard host(impl_->host);
  impl_->publish(count, task);
  impl_->work(task, count);
  if (const std::exception_ptr failure = impl_->close()) std::rethrow_exception(failure);
}

}  // namespace spectralclip
