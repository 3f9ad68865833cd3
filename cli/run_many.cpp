// SPDX-License-Identifier: Apache-2.0
#include "run_many.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <thread>

#include "commands.h"
#include "progress.h"
#include "record/contents.h"
#include "report/collect.h"
#include "report/read_run.h"
#include "report/terminal_table.h"
#include "require.h"
#include "self_path.h"
#include "studies/trace_csv.h"
#include "sweep/jobs.h"

namespace spectralclip::cli {
namespace {

int jobs_at_once(const std::vector<RunJob>& jobs, int wanted) {
  if (wanted > 0) return wanted;
  std::int64_t threads = 1;
  for (const RunJob& job : jobs) threads = std::max(threads, job.resolved.config.threads);
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency() / threads));
}

lab::Job job_of(const RunJob& run, const RunManyOptions& options) {
  std::vector<std::string> command = {self_path(), "run", run.source, "--quiet"};
  for (const std::string& assignment : options.assignments) command.insert(command.end(), {"--set", assignment});
  command.insert(command.end(), {"--seed", std::to_string(run.resolved.config.seed), "--out", run.directory});
  if (options.resume) command.emplace_back("--resume");
  std::filesystem::create_directories(run.directory);
  return {command, run.directory + "/log.txt"};
}

// Refused before anything starts: what the children would refuse one by one.
void require_unused(const std::vector<RunJob>& jobs) {
  for (const RunJob& job : jobs)
    SPECTRALCLIP_REQUIRE(!std::filesystem::exists(job.directory + "/config.toml"), job.directory,
                         " already holds a run; --resume goes on with all of them, --out takes another folder");
}

// Steps of all runs, from their records: a run of minutes is not 0 until it is 1.
struct Steps {
  std::int64_t done = 0, total = 0;
};
Steps steps_of(const std::vector<RunJob>& jobs) {
  Steps steps;
  for (const RunJob& job : jobs) {
    const std::int64_t total = job.resolved.config.train.steps;
    steps.total += total;
    steps.done += std::min(total, lab::report::last_recorded_step(job.directory));
  }
  return steps;
}

struct Counts {
  std::int64_t done = 0, diverged = 0;
  std::vector<std::string> failures;  // directory and the log's last line
};

void count(Counts& counts, const lab::JobEnd& end, const std::string& directory) {
  ++counts.done;
  if (end.exit_code == kDiverged) ++counts.diverged;
  if (end.exit_code != kDone && end.exit_code != kDiverged && !end.interrupted)
    counts.failures.push_back(directory + ": " + lab::last_line(directory + "/log.txt"));
}

void print_table(const std::string& root) {
  const auto found = lab::report::collect({root}, {.series = false});
  fmt::print("{}", lab::report::terminal_table(found.runs, {.colour = wants_colour(STDOUT_FILENO)}));
}

}  // namespace

void write_tables(const std::vector<RunJob>& jobs, const std::string& root) {
  const lab::Config& first = jobs.front().resolved.config;
  if (first.task != "trace-regression") return;
  std::vector<std::string> directories;
  for (const RunJob& job : jobs)
    if (job.resolved.config.name == first.name) directories.push_back(job.directory);
  fmt::print("wrote {}\n", lab::write_trace_csv(directories, root));
}

int run_many(const std::vector<RunJob>& jobs, const RunManyOptions& options) {
  lab::require_place_for(lab::Contents::folder_of_runs, options.root);
  for (const RunJob& job : jobs) lab::require_place_for(lab::Contents::run, job.directory);
  if (!options.resume) require_unused(jobs);
  std::vector<lab::Job> commands;
  for (const RunJob& job : jobs) commands.push_back(job_of(job, options));
  Counts counts;
  lab::JobsOutcome outcome{};
  {
    ProgressLine line(fmt::format("{} runs", jobs.size()), options.quiet);
    const auto start = std::chrono::steady_clock::now();
    const std::int64_t begun = options.resume ? steps_of(jobs).done : 0;
    const auto show = [&] {
      const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      const Steps steps = steps_of(jobs);
      std::string detail = fmt::format("steps, {} of {} runs", counts.done, jobs.size());
      if (counts.diverged > 0) detail += fmt::format(", {} diverged", counts.diverged);
      const bool over = counts.done == std::ssize(jobs);  // a run that diverged leaves steps undone
      line.show(over ? steps.total : std::min(steps.done, steps.total - 1), steps.total, detail, seconds, begun);
    };
    outcome = lab::run_jobs(commands, {.max_parallel = jobs_at_once(jobs, options.jobs), .on_tick = show},
                            [&](const lab::JobEnd& end) {
                              count(counts, end, jobs[end.index].directory);
                              show();
                            });
  }
  if (outcome == lab::JobsOutcome::interrupted) {
    fmt::print("stopped; `--resume` goes on: {}\n", options.root);
    return kStopped;
  }
  print_table(options.root);
  for (const std::string& failure : counts.failures) fmt::print(stderr, "failed: {}\n", failure);
  if (!counts.failures.empty()) return 1;
  write_tables(jobs, options.root);
  fmt::print("`spectralclip report {}` draws them.\n", options.root);
  return counts.diverged > 0 ? kDiverged : kDone;
}

}  // namespace spectralclip::cli
