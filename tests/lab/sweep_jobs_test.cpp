// SPDX-License-Identifier: Apache-2.0
// Processes: how they end, how they are stopped.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <ctime>
#include <map>
#include <thread>

#include "spectralclip/error.h"
#include "sweep/jobs.h"
#include "sweep_program.h"

namespace spectralclip::lab {
namespace {

using testing::lines_of;
using testing::read_text;
using Clock = std::chrono::steady_clock;

Job shell(const std::string& script, const std::string& log = {}) { return {{"sh", "-c", script}, log}; }

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

bool has_children() {
  const pid_t pid = ::waitpid(-1, nullptr, WNOHANG);
  return !(pid == -1 && errno == ECHILD);
}

bool wait_for_file(const std::string& path) {
  for (int i = 0; i < 500 && !std::filesystem::exists(path); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  return std::filesystem::exists(path);
}

TEST(Jobs, ReportExitCodesSignalsAndLogs) {
  const ScratchFolder folder;
  std::map<std::size_t, JobEnd> ends;
  const JobsOutcome outcome = run_jobs(
      {shell("echo out; echo err >&2", folder / "log"), shell("exit 3"), shell("kill -9 $$"), shell("exit 255")},
      {.max_parallel = 2}, [&](const JobEnd& end) { ends[end.index] = end; });
  EXPECT_EQ(outcome, JobsOutcome::finished);
  ASSERT_EQ(ends.size(), 4U);
  EXPECT_EQ(ends[0].exit_code, 0);
  EXPECT_EQ(ends[1].exit_code, 3);
  EXPECT_EQ(ends[2].exit_code, -1);
  EXPECT_EQ(ends[2].signal, SIGKILL);
  EXPECT_EQ(ends[3].exit_code, 255);
  EXPECT_FALSE(ends[3].interrupted);
  EXPECT_EQ(read_text(folder / "log"), "out\nerr\n");
  EXPECT_EQ(last_line(folder / "log"), "err");
  EXPECT_EQ(last_line(folder / "none"), "");
  EXPECT_FALSE(has_children());
}

TEST(Jobs, RunAsManyAtOnceAsAllowed) {
  for (const int parallel : {1, 3}) {
    const ScratchFolder folder;
    // Each notes how many are at work, itself included.
    const std::string script =
        "cd " + folder.path() + "; touch run.$$; ls run.* | wc -l >> counts; sleep 0.3; rm run.$$";
    const std::vector<Job> jobs(6, shell(script));
    EXPECT_EQ(run_jobs(jobs, {.max_parallel = parallel}, [](const JobEnd&) {}), JobsOutcome::finished);
    int most = 0;
    for (const std::string& line : lines_of(folder / "counts")) most = std::max(most, std::stoi(line));
    EXPECT_EQ(lines_of(folder / "counts").size(), 6U);
    EXPECT_EQ(most, parallel);
  }
  EXPECT_THROW((void)run_jobs(std::vector<Job>{}, {.max_parallel = 0}, [](const JobEnd&) {}), InvalidArgument);
}

TEST(Jobs, AProgramThatIsMissingIsNamedAndTheOthersAreEnded) {
  const Clock::time_point start = Clock::now();
  try {
    (void)run_jobs({shell("sleep 30"), {{"/no/such/program", "run"}, ""}}, {.max_parallel = 2}, [](const JobEnd&) {});
    FAIL() << "started";
  } catch (const InvalidArgument& error) {
    EXPECT_NE(std::string(error.what()).find("cannot start /no/such/program: No such file"), std::string::npos)
        << error.what();
  }
  EXPECT_LT(seconds_since(start), 5.0);
  EXPECT_FALSE(has_children());
  EXPECT_THROW((void)run_jobs({{{}, ""}}, {}, [](const JobEnd&) {}), InvalidArgument);
  EXPECT_THROW((void)run_jobs({shell("true", "/no/such/folder/log")}, {}, [](const JobEnd&) {}), InvalidArgument);
}

TEST(Jobs, WhatACallbackThrowsLeavesNoChildBehind) {
  EXPECT_THROW((void)run_jobs({shell("sleep 30"), shell("true")}, {.max_parallel = 2},
                              [](const JobEnd&) { throw Error("enough"); }),
               Error);
  EXPECT_FALSE(has_children());
}

TEST(Jobs, AnInterruptionIsPassedOnAndWaitedFor) {
  for (const int signal : {SIGINT, SIGTERM}) {
    const ScratchFolder folder;
    const std::string script =
        "trap 'sleep 0.2; echo saved; exit 7' TERM; touch " + (folder / "ready") + "; while :; do sleep 0.05; done";
    std::vector<JobEnd> ends;
    std::thread interrupter([&] {
      EXPECT_TRUE(wait_for_file(folder / "ready"));
      ::kill(::getpid(), signal);
    });
    int started = 0;
    const auto next = [&]() -> std::optional<Job> {
      ++started;
      return shell(script, folder / "log");
    };
    const JobsOutcome outcome = run_jobs(next, {.max_parallel = 1}, [&](const JobEnd& end) { ends.push_back(end); });
    interrupter.join();
    EXPECT_EQ(outcome, JobsOutcome::interrupted);
    EXPECT_EQ(started, 1);  // nothing new after the signal
    ASSERT_EQ(ends.size(), 1U);
    EXPECT_EQ(ends[0].exit_code, 7);
    EXPECT_TRUE(ends[0].interrupted);
    EXPECT_EQ(last_line(folder / "log"), "saved");
    EXPECT_FALSE(has_children());
  }
}

TEST(Jobs, TheThirdInterruptionKills) {
  const ScratchFolder folder;
  std::thread interrupter([&] {
    EXPECT_TRUE(wait_for_file(folder / "ready"));
    for (int i = 0; i < 3; ++i) {
      ::kill(::getpid(), SIGINT);
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
  });
  std::vector<JobEnd> ends;
  const std::string script = "trap '' TERM; touch " + (folder / "ready") + "; while :; do sleep 0.05; done";
  EXPECT_EQ(run_jobs({shell(script)}, {}, [&](const JobEnd& end) { ends.push_back(end); }), JobsOutcome::interrupted);
  interrupter.join();
  ASSERT_EQ(ends.size(), 1U);
  EXPECT_EQ(ends[0].signal, SIGKILL);
}

TEST(Jobs, TickAndDoNotSpin) {
  int ticks = 0;
  const std::clock_t before = std::clock();
  (void)run_jobs({shell("sleep 1.3")}, {.max_parallel = 1, .on_tick = [&] { ++ticks; }}, [](const JobEnd&) {});
  EXPECT_GE(ticks, 2);
  EXPECT_LE(ticks, 4);
  EXPECT_LT(static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC, 0.2);
}

}  // namespace
}  // namespace spectralclip::lab
