// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <vector>

#include "spectralclip/error.h"
#include "spectralclip/executor.h"

namespace spectralclip {
namespace {

class ThreadPoolTest : public ::testing::TestWithParam<int> {};

TEST_P(ThreadPoolTest, RunsEachTaskOnceForAnyCount) {
  ThreadPool pool(GetParam());
  EXPECT_EQ(pool.concurrency(), GetParam());
  for (const std::int64_t count : {0, 1, 2, 3, 7, 64, 1000}) {
    std::vector<std::atomic<int>> calls(static_cast<std::size_t>(count));
    auto task = [&](std::int64_t i) { ++calls[static_cast<std::size_t>(i)]; };
    pool.run(count, task);
    for (const auto& times : calls) EXPECT_EQ(times, 1);
  }
}

// Each job reads what the job before wrote without any lock: run() must order them. ThreadSanitizer watches.
TEST_P(ThreadPoolTest, JobsAreOrderedAndTheirWritesVisible) {
  ThreadPool pool(GetParam());
  std::vector<std::uint64_t> values(257, 0);  // unsigned: wraps
  constexpr int kJobs = 500;
  for (int job = 0; job < kJobs; ++job) {
    auto task = [&](std::int64_t i) {
      auto& value = values[static_cast<std::size_t>((i + job) % 257)];
      value = value * 3 + static_cast<std::uint64_t>(job);
    };
    pool.run(257, task);
  }
  std::uint64_t expected = 0;
  for (std::uint64_t job = 0; job < kJobs; ++job) expected = expected * 3 + job;
  for (const std::uint64_t value : values) EXPECT_EQ(value, expected);
}

TEST_P(ThreadPoolTest, RethrowsAnExceptionAndStaysUsable) {
  ThreadPool pool(GetParam());
  for (int round = 0; round < 20; ++round) {
    std::atomic<std::int64_t> ran{0};
    auto failing = [&](std::int64_t i) {
      if (i == 5) throw std::runtime_error("task 5");
      ++ran;
    };
    try {
      pool.run(10000, failing);
      FAIL() << "nothing was thrown";
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "task 5");
    }
    EXPECT_GE(ran, 5);  // tasks 0 … 4 were handed out before and are not dropped
    std::atomic<std::int64_t> after{0};
    auto counting = [&](std::int64_t) { ++after; };
    pool.run(100, counting);
    EXPECT_EQ(after, 100);
  }
}

TEST_P(ThreadPoolTest, NestedRunsFinishOnTheCallingThread) {
  ThreadPool pool(GetParam());
  ThreadPool other(2);
  std::atomic<std::int64_t> inner{0};
  std::atomic<bool> moved{false};
  auto outer = [&](std::int64_t) {
    const auto self = std::this_thread::get_id();
    auto deepest = [&](std::int64_t) {
      ++inner;
      if (std::this_thread::get_id() != self) moved = true;
    };
    auto middle = [&](std::int64_t) { pool.run(3, deepest); };
    other.run(2, middle);
    pool.run(2, middle);
  };
  pool.run(50, outer);
  EXPECT_EQ(inner, 50 * 4 * 3);
  EXPECT_FALSE(moved && GetParam() > 1);
}

TEST_P(ThreadPoolTest, SeveralHostThreadsTakeTurns) {
  ThreadPool pool(GetParam());
  std::atomic<std::int64_t> sum{0};
  std::vector<std::thread> hosts;
  for (int host = 0; host < 4; ++host)
    hosts.emplace_back([&] {
      for (int job = 0; job < 100; ++job) {
        auto task = [&](std::int64_t i) { sum += i; };
        pool.run(32, task);
      }
    });
  for (std::thread& host : hosts) host.join();
  EXPECT_EQ(sum, 4 * 100 * (31 * 32 / 2));
}

INSTANTIATE_TEST_SUITE_P(Threads, ThreadPoolTest, ::testing::Values(1, 2, 3, 8));

// Two tasks that wait for each other can only finish on two threads.
TEST(ThreadPool, TasksReallyOverlap) {
  ThreadPool pool(2);
  std::atomic<int> arrived{0};
  auto task = [&](std::int64_t) {
    ++arrived;
    while (arrived < 2) std::this_thread::yield();
  };
  pool.run(2, task);
  EXPECT_EQ(arrived, 2);
}

TEST(ThreadPool, HandsTasksOutInOrder) {
  ThreadPool pool(2);
  std::mutex mutex;
  std::vector<std::int64_t> per_thread_last;
  std::vector<std::thread::id> threads;
  bool ordered = true;
  auto task = [&](std::int64_t i) {
    const std::lock_guard lock(mutex);
    for (std::size_t t = 0; t < threads.size(); ++t) {
      if (threads[t] != std::this_thread::get_id()) continue;
      ordered = ordered && per_thread_last[t] < i;
      per_thread_last[t] = i;
      return;
    }
    threads.push_back(std::this_thread::get_id());
    per_thread_last.push_back(i);
  };
  pool.run(1000, task);
  EXPECT_TRUE(ordered);
}

TEST(ThreadPool, RefusesAbsurdSizesAndDefaultsToTheHardware) {
  EXPECT_THROW(ThreadPool(-1), InvalidArgument);
  EXPECT_THROW(ThreadPool(1 << 20), InvalidArgument);
  EXPECT_GE(ThreadPool(0).concurrency(), 1);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // which take more addresses than the limit
// In a process of its own that has addresses for about a hundred stacks.
TEST(ThreadPoolDeathTest, SaysHowManyThreadsTheSystemStarts) {
  const auto ask_for_too_many = [] {
    rlimit limit{};
    (void)::getrlimit(RLIMIT_AS, &limit);
    limit.rlim_cur = rlim_t{1} << 30;
    (void)::setrlimit(RLIMIT_AS, &limit);
    try {
      const ThreadPool pool(4000);
    } catch (const InvalidArgument& error) {
      std::fprintf(stderr, "%s\n", error.what());
      std::_Exit(3);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "not named: %s\n", error.what());
    }
    std::_Exit(4);
  };
  EXPECT_EXIT(ask_for_too_many(), ::testing::ExitedWithCode(3), "threads = 4000: the system started only [0-9]+ ");
}
#endif

TEST(SerialExecutor, RunsInOrderHereAndStopsAtAnException) {
  std::vector<std::int64_t> seen;
  auto task = [&](std::int64_t i) {
    if (i == 3) throw std::runtime_error("task 3");
    seen.push_back(i);
  };
  EXPECT_THROW(serial_executor().run(10, task), std::runtime_error);
  EXPECT_EQ(seen, (std::vector<std::int64_t>{0, 1, 2}));
  EXPECT_EQ(serial_executor().concurrency(), 1);
}

}  // namespace
}  // namespace spectralclip
