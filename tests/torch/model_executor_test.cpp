// SPDX-License-Identifier: Apache-2.0
// Work handed to torch's threads: every task once, on as many threads as torch was told to use, on one inside a
// parallel region, and an exception comes back to the caller.
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

#include "tensor/executor.h"

namespace spectralclip::torch {
namespace {

class TorchThreads : public ::testing::Test {
 protected:
  void TearDown() override { at::set_num_threads(before_); }
  int before_ = at::get_num_threads();
};

TEST_F(TorchThreads, TasksRunOnAsManyThreadsAsTorchUses) {
  for (const int threads : {1, 2, 3}) {
    at::set_num_threads(threads);
    TorchExecutor executor;
    ASSERT_EQ(executor.concurrency(), threads);
    std::mutex mutex;
    std::condition_variable all_are_here;
    std::set<std::thread::id> seen;
    std::vector<int> times(64);
    auto task = [&](std::int64_t i) {
      std::unique_lock lock(mutex);
      if (seen.insert(std::this_thread::get_id()).second) {  // its first: wait for the others, however busy we are
        all_are_here.notify_all();
        all_are_here.wait_for(lock, std::chrono::minutes(1), [&] { return static_cast<int>(seen.size()) >= threads; });
      }
      ++times[static_cast<std::size_t>(i)];
    };
    executor.run(64, task);
    EXPECT_EQ(static_cast<int>(seen.size()), threads);
    EXPECT_EQ(times, std::vector<int>(64, 1));
  }
}

TEST_F(TorchThreads, OneThreadInsideAParallelRegion) {
  at::set_num_threads(2);
  std::atomic<int> largest{0};
  TorchExecutor executor;
  auto task = [&](std::int64_t) { largest = std::max(largest.load(), TorchExecutor().concurrency()); };
  executor.run(8, task);
  EXPECT_EQ(largest, 1);
}

TEST_F(TorchThreads, AnExceptionReachesTheCaller) {
  at::set_num_threads(2);
  TorchExecutor executor;
  auto task = [](std::int64_t i) {
    if (i == 5) throw std::runtime_error("task five");
  };
  EXPECT_THROW(executor.run(16, task), std::runtime_error);
}

}  // namespace
}  // namespace spectralclip::torch
