// SPDX-License-Identifier: Apache-2.0
// Whole sweeps with real processes: finished, stopped, killed, resumed.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "record/lock.h"
#include "spectralclip/error.h"
#include "sweep/jobs.h"
#include "sweep/sweep.h"
#include "sweep_program.h"

namespace spectralclip::lab {
namespace {

using nlohmann::json;
using testing::lines_of;
using testing::make_program;
using testing::read_text;
using testing::small_sweep;

json load(const std::string& path) { return json::parse(read_text(path)); }

std::vector<json> load_lines(const std::string& path) {
  std::vector<json> list;
  for (const std::string& line : lines_of(path)) list.push_back(json::parse(line));
  return list;
}

struct Place {
  ScratchFolder folder;
  std::string program = make_program(folder);
  SweepOptions options = {.directory = folder / "sweep", .program = program};
};

std::string refusal_of(const SweepDefinition& definition, const SweepOptions& options) {
  try {
    (void)run_sweep(definition, options);
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

// Every trial once, each of three steps, none lost.
void expect_whole(const std::string& directory, std::size_t trials) {
  std::set<std::int64_t> numbers;
  for (const json& line : load_lines(directory + "/trials.jsonl")) {
    const auto number = line["trial"].get<std::int64_t>();
    EXPECT_TRUE(numbers.insert(number).second) << number;
    char name[32];
    (void)std::snprintf(name, sizeof name, "/trials/%04d/steps", static_cast<int>(number));
    EXPECT_EQ(lines_of(directory + name).size(), 3U) << number;
  }
  EXPECT_EQ(numbers.size(), trials);
  EXPECT_EQ(*numbers.begin(), 1);
  EXPECT_EQ(*numbers.rbegin(), static_cast<std::int64_t>(trials));
  EXPECT_EQ(load_lines(directory + "/proposed.jsonl").size(), trials);
}

TEST(Sweep, AGridFromEndToEnd) {
  Place place;
  std::vector<SweepProgress> events;
  place.options.jobs = 2;
  place.options.on_event = [&](const SweepProgress& progress) { events.push_back(progress); };
  const SweepResult result = run_sweep(small_sweep(SearchKind::grid, 12), place.options);
  EXPECT_EQ(result.status, SweepStatus::finished);
  EXPECT_EQ(result.done, 12);
  expect_whole(place.options.directory, 12);
  // Rates 1e-4, 1e-3, 1e-2, 1e-1, the last diverges; tau 0.01, 5.005, 10, the first is nearest to 1.
  ASSERT_TRUE(result.best);
  EXPECT_NEAR(result.best->candidate.values[0], 1e-2, 1e-12);
  EXPECT_EQ(result.best->candidate.values[1], 0.01);
  const json summary = load(place.options.directory + "/summary.json");
  EXPECT_EQ(summary["kind"], "sweep");
  EXPECT_EQ(summary["status"], "finished");
  EXPECT_EQ(summary["search"], "grid");
  EXPECT_EQ(summary["trials"], 12);
  EXPECT_EQ(summary["diverged"], 3);
  EXPECT_EQ(summary["best"]["trial"], result.best->candidate.trial);
  EXPECT_EQ(summary["space"][0]["scale"], "log");
  EXPECT_EQ(summary["space"][1]["points"], 3);
  ASSERT_EQ(result.best_runs.size(), 2U);
  EXPECT_NEAR(*result.best_runs[1].value - *result.best_runs[0].value, 1e-5, 1e-12);  // another seed indeed
  EXPECT_EQ(load(place.options.directory + "/best/seed-3/summary.json")["status"], "finished");
  for (const json& line : load_lines(place.options.directory + "/trials.jsonl")) {
    const bool diverged = line["values"]["optimizer.lr"].get<double>() > 0.05;
    EXPECT_EQ(line["status"], diverged ? "diverged" : "finished");
    EXPECT_EQ(line["value"].is_null(), diverged);
    EXPECT_EQ(line["seconds"], 1.5);  // the run's own account
  }
  EXPECT_EQ(events.back().phase, SweepPhase::best);
  EXPECT_TRUE(std::any_of(events.begin(), events.end(), [](const SweepProgress& e) { return e.running == 2; }));
}

TEST(Sweep, AGlobalSearchFindsTheValleyAndAFinishedOneIsLeftAlone) {
  Place place;
  place.options.jobs = 2;
  const SweepDefinition definition = small_sweep(SearchKind::global, 40);
  const SweepResult result = run_sweep(definition, place.options);
  ASSERT_TRUE(result.best);
  EXPECT_LT(*result.best->value, 0.00101 + 0.01);
  const std::string before = read_text(place.options.directory + "/trials.jsonl");
  EXPECT_NE(refusal_of(definition, place.options).find("holds a sweep already"), std::string::npos);
  place.options.resume = true;
  std::string said;
  place.options.on_event = [&](const SweepProgress& progress) { said += progress.message; };
  const SweepResult again = run_sweep(definition, place.options);
  EXPECT_EQ(again.status, SweepStatus::already_finished);
  EXPECT_EQ(again.best->candidate.trial, result.best->candidate.trial);
  EXPECT_EQ(again.best_runs.size(), 2U);
  EXPECT_NE(said.find("nothing to do"), std::string::npos);
  EXPECT_EQ(read_text(place.options.directory + "/trials.jsonl"), before);
}

TEST(Sweep, MoreTrialsGoOnWhereFewerEnded) {
  Place place;
  SweepDefinition definition = small_sweep(SearchKind::random, 4);
  const SweepResult first = run_sweep(definition, place.options);
  place.options.resume = true;
  definition.trials = 12;
  const SweepResult second = run_sweep(definition, place.options);
  EXPECT_EQ(second.status, SweepStatus::finished);
  expect_whole(place.options.directory, 12);
  EXPECT_EQ(load(place.options.directory + "/best/trial.json")["trial"], second.best->candidate.trial);
  if (second.best->candidate.trial != first.best->candidate.trial) {
    char name[40];
    (void)std::snprintf(name, sizeof name, "/best-of-trial-%04d/seed-2", static_cast<int>(first.best->candidate.trial));
    EXPECT_TRUE(std::filesystem::exists(place.options.directory + name));
  }
  definition.trials = 4;
  EXPECT_NE(refusal_of(definition, place.options).find("trials = 12 before, trials = 4 now"), std::string::npos);
  definition.trials = 12;
  definition.seed = 2;
  EXPECT_NE(refusal_of(definition, place.options).find("seed = 1 before, seed = 2 now"), std::string::npos);
}

TEST(Sweep, StopsWhenThreeInARowFail) {
  Place place;
  SweepDefinition definition = small_sweep(SearchKind::random, 50);
  definition.preset = "broken";
  const std::string refusal = refusal_of(definition, place.options);
  EXPECT_NE(refusal.find("3 trials in a row failed"), std::string::npos) << refusal;
  EXPECT_NE(refusal.find("exit code 1: error: no such data"), std::string::npos) << refusal;
  const std::vector<json> lines = load_lines(place.options.directory + "/trials.jsonl");
  ASSERT_EQ(lines.size(), 6U) << "each twice";
  EXPECT_EQ(lines[0]["status"], "failed");
  EXPECT_EQ(lines[0]["message"], "exit code 1: error: no such data");
  EXPECT_TRUE(lines[0]["value"].is_null());
  const json summary = load(place.options.directory + "/summary.json");
  EXPECT_EQ(summary["failed"], 3);
  EXPECT_EQ(summary["done"], 0);
  EXPECT_EQ(summary["last_failure"], "exit code 1: error: no such data");
}

// Lines of trials.jsonl that end a trial, in the order of their numbers.
std::vector<json> ended_trials(const std::string& directory) {
  std::vector<json> list;
  for (const json& line : load_lines(directory + "/trials.jsonl"))
    if (line["status"] != "failed") list.push_back(line);
  std::sort(list.begin(), list.end(), [](const json& a, const json& b) { return a["trial"] < b["trial"]; });
  return list;
}

void expect_same_search(const Place& one, const Place& other) {
  EXPECT_EQ(read_text(one.options.directory + "/proposed.jsonl"),
            read_text(other.options.directory + "/proposed.jsonl"));
  EXPECT_EQ(ended_trials(one.options.directory), ended_trials(other.options.directory));
}

TEST(Sweep, ARunThatFailsOnceIsTriedAgainAndTheSearchNeverHears) {
  Place calm, place;
  SweepDefinition definition = small_sweep(SearchKind::global, 12);
  (void)run_sweep(definition, calm.options);
  definition.preset = "flaky";
  const SweepResult result = run_sweep(definition, place.options);
  EXPECT_EQ(result.status, SweepStatus::finished);
  EXPECT_EQ(result.failed, 0);
  EXPECT_EQ(load_lines(place.options.directory + "/trials.jsonl").size(), 24U);
  expect_same_search(calm, place);
}

// The disk is full from the fifth trial on, and has room again later.
TEST(Sweep, AFullDiskPoisonsNothing) {
  for (const SearchKind search : {SearchKind::global, SearchKind::random}) {
    Place calm, place;
    const SweepDefinition definition = small_sweep(search, 12);
    (void)run_sweep(definition, calm.options);
    const std::string full = place.folder / "full";
    place.options.sets = {"test.full=" + full};
    place.options.on_event = [&](const SweepProgress& progress) {
      if (progress.phase == SweepPhase::trials && progress.done == 4) testing::write_text(full, "");
    };
    std::string said;
    try {  // a global search waits for what failed; the others give up after three
      const SweepResult result = run_sweep(definition, place.options);
      EXPECT_EQ(result.status, SweepStatus::incomplete);
      EXPECT_GT(result.failed, 0);
      said = result.failure;
    } catch (const Error& error) {
      said = error.what();
    }
    EXPECT_NE(said.find("No space left on device"), std::string::npos) << said;
    EXPECT_EQ(ended_trials(place.options.directory).size(), 4U);
    std::filesystem::remove(full);
    place.options.on_event = {};
    place.options.resume = true;
    EXPECT_EQ(run_sweep(definition, place.options).status, SweepStatus::finished);
    expect_same_search(calm, place);
  }
}

TEST(Sweep, AConfigurationThatIsRefusedCountsAsNoValueAtOnce) {
  Place place;
  SweepDefinition definition = small_sweep(SearchKind::grid, 12);
  definition.preset = "picky";
  EXPECT_EQ(run_sweep(definition, place.options).status, SweepStatus::finished);
  const std::vector<json> lines = load_lines(place.options.directory + "/trials.jsonl");
  ASSERT_EQ(lines.size(), 12U);
  EXPECT_EQ(lines[11]["status"], "refused");
  EXPECT_EQ(lines[11]["message"], "exit code 2: optimizer.lr is too large");
  EXPECT_EQ(load(place.options.directory + "/summary.json")["refused"], 3);
}

TEST(Sweep, WhatIsFoundDoesNotDependOnTheNumberOfJobs) {
  Place alone, together;
  const SweepDefinition definition = small_sweep(SearchKind::global, 16);
  (void)run_sweep(definition, alone.options);
  together.options.jobs = 3;
  const SweepResult result = run_sweep(definition, together.options);
  EXPECT_EQ(result.status, SweepStatus::finished);
  expect_same_search(alone, together);
}

TEST(Sweep, TheMeanOfSeveralSeedsDecidesAndTheBestMeetsNewOnes) {
  Place place;
  place.options.jobs = 2;
  SweepDefinition definition = small_sweep(SearchKind::grid, 12);
  definition.seed = 7;
  definition.seeds = 3;
  const SweepResult result = run_sweep(definition, place.options);
  EXPECT_EQ(result.status, SweepStatus::finished);
  for (const json& line : ended_trials(place.options.directory)) {
    if (line["status"] == "diverged") continue;
    ASSERT_EQ(line["by_seed"].size(), 3U);
    EXPECT_NEAR(line["by_seed"][2].get<double>() - line["by_seed"][0].get<double>(), 2e-5, 1e-12);
    EXPECT_NEAR(line["value"].get<double>(), line["by_seed"][1].get<double>(), 1e-12);
    EXPECT_EQ(line["seconds"], 4.5);
  }
  ASSERT_EQ(result.best_runs.size(), 2U);
  EXPECT_EQ(result.best_runs[0].seed, 10U);
  EXPECT_EQ(result.best_runs[1].seed, 11U);
  EXPECT_EQ(load(place.options.directory + "/trials/0001/seed-9/summary.json")["status"], "finished");
  definition.set["seed"] = "3";
  EXPECT_NE(refusal_of(definition, place.options).find("seed cannot be set"), std::string::npos);
}

TEST(Sweep, RefusesWhatCannotWork) {
  Place place;
  const SweepDefinition definition = small_sweep(SearchKind::random, 5);
  SweepOptions options = place.options;
  options.program = "/no/such/program";
  EXPECT_NE(refusal_of(definition, options).find("cannot start /no/such/program"), std::string::npos);
  options = place.options;
  options.directory = place.folder / "other";
  options.resume = true;
  EXPECT_NE(refusal_of(definition, options).find("nothing to resume"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(options.directory));
  options.resume = false;
  options.sets = {"optimizer.lr=1"};
  EXPECT_NE(refusal_of(definition, options).find("both set and searched"), std::string::npos);
  options.sets = {"nonsense"};
  EXPECT_NE(refusal_of(definition, options).find("give key=value"), std::string::npos);
  SweepDefinition other = definition;
  other.metric = "accuracy";
  other.space[0].high = 1e-2;  // none diverges
  options.sets = {};
  EXPECT_NE(refusal_of(other, options).find("no result \"accuracy\"; there are: train_loss"), std::string::npos);
}

TEST(Sweep, TwoCannotShareADirectory) {
  Place place;
  const DirectoryLock lock(place.options.directory);
  const std::string refusal = refusal_of(small_sweep(SearchKind::random, 5), place.options);
  EXPECT_NE(refusal.find("in use by process " + std::to_string(::getpid())), std::string::npos) << refusal;
}

// Until all files are there, or for a minute: how long that takes is the machine's business.
void wait_for(const std::string& folder, const std::vector<std::string>& files) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  for (const std::string& file : files) {
    while (!std::filesystem::exists(folder + "/" + file) && std::chrono::steady_clock::now() < end) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }
}

// run_sweep in a process of its own, `signal` a `delay` after `files` are there; false when it had ended by itself.
bool run_and_signal(const SweepDefinition& definition, const SweepOptions& options, int signal,
                    const std::vector<std::string>& files, std::chrono::milliseconds delay, int& exit_code) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    int code = 9;
    try {
      const SweepStatus status = run_sweep(definition, options).status;
      code = status == SweepStatus::interrupted ? 4 : 0;
    } catch (const std::exception& error) {
      (void)std::fprintf(stderr, "%s\n", error.what());
    }
    ::_exit(code);
  }
  wait_for(options.directory, files);
  std::this_thread::sleep_for(delay);
  (void)::kill(pid, signal);
  int status = 0;
  (void)::waitpid(pid, &status, 0);
  exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return exit_code != 0;
}

// Killed again and again, children left behind: the sweep is in the end the very one that ran undisturbed.
TEST(Sweep, KilledAtAnyMomentLosesAndRepeatsNothing) {
  Place undisturbed;
  const SweepDefinition definition = small_sweep(SearchKind::global, 14);
  (void)run_sweep(definition, undisturbed.options);

  Place place;
  place.options.sets = {"test.pause=0.02"};
  int kills = 0;
  int exit_code = -1;
  for (int delay = 60; kills < 40; delay = 60 + (delay * 7 + 31) % 210) {
    if (!run_and_signal(definition, place.options, SIGKILL, {"sweep.toml"}, std::chrono::milliseconds(delay),
                        exit_code))
      break;
    ASSERT_EQ(exit_code, -1);  // killed, not refused
    ++kills;
    place.options.resume = true;
  }
  EXPECT_GE(kills, 3);
  const SweepResult result = run_sweep(definition, place.options);
  EXPECT_NE(result.status, SweepStatus::interrupted);
  expect_whole(place.options.directory, 14);
  EXPECT_EQ(read_text(place.options.directory + "/proposed.jsonl"),
            read_text(undisturbed.options.directory + "/proposed.jsonl"));
  EXPECT_EQ(read_text(place.options.directory + "/trials.jsonl"),
            read_text(undisturbed.options.directory + "/trials.jsonl"));
}

TEST(Sweep, KilledWithSeveralAtWorkLosesAndRepeatsNothing) {
  Place place;
  place.options.jobs = 3;
  place.options.sets = {"test.pause=0.05"};
  const SweepDefinition definition = small_sweep(SearchKind::global, 12);
  int exit_code = -1;
  for (const int delay : {120, 250, 400}) {
    (void)run_and_signal(definition, place.options, SIGKILL, {"sweep.toml"}, std::chrono::milliseconds(delay),
                         exit_code);
    place.options.resume = true;
  }
  (void)run_sweep(definition, place.options);
  expect_whole(place.options.directory, 12);
}

// The sweep is killed before its child has locked the directory; the next sweep's child comes second and fails.
TEST(Sweep, AChildThatWasStillStartingIsNotLostEither) {
  Place place;
  place.options.sets = {"test.delay=0.5", "test.pause=0.3"};
  SweepDefinition definition = small_sweep(SearchKind::random, 1);
  definition.best_seeds = 0;
  int exit_code = -1;
  (void)run_and_signal(definition, place.options, SIGKILL, {"trials/0001/log.txt"}, std::chrono::milliseconds(20),
                       exit_code);
  ASSERT_FALSE(std::filesystem::exists(place.options.directory + "/trials/0001/lock"));  // else nothing is tested
  place.options.resume = true;
  (void)run_sweep(definition, place.options);
  expect_whole(place.options.directory, 1);
  EXPECT_NE(load_lines(place.options.directory + "/trials.jsonl")[0]["status"], "failed");
  EXPECT_EQ(lines_of(place.options.directory + "/trials/0001/starts").size(), 1U);
  EXPECT_EQ(last_line(place.options.directory + "/trials/0001/log.txt"), "locked");  // ours did come second
}

TEST(Sweep, StoppedTrialsSaveThemselvesAndAreFinishedLater) {
  Place place;
  place.options.jobs = 2;
  place.options.sets = {"test.pause=1"};
  const SweepDefinition definition = small_sweep(SearchKind::random, 4);
  int exit_code = -1;
  (void)run_and_signal(definition, place.options, SIGTERM, {"trials/0001/steps", "trials/0002/steps"},
                       std::chrono::milliseconds(20), exit_code);
  EXPECT_EQ(exit_code, 4);
  EXPECT_EQ(load(place.options.directory + "/summary.json")["status"], "stopped");
  EXPECT_EQ(load(place.options.directory + "/trials/0001/summary.json")["status"], "stopped");
  EXPECT_EQ(load_lines(place.options.directory + "/trials.jsonl").size(), 0U);
  place.options.resume = true;
  EXPECT_EQ(run_sweep(definition, place.options).status, SweepStatus::finished);
  expect_whole(place.options.directory, 4);
  EXPECT_EQ(lines_of(place.options.directory + "/trials/0001/starts"), (std::vector<std::string>{"new", "resumed"}));
}

}  // namespace
}  // namespace spectralclip::lab
