// SPDX-License-Identifier: Apache-2.0
// `spectralclip run`: one run in this process, with a bar; several (presets, seeds) as processes, with a table.
#include <fmt/format.h>

#include <charconv>
#include <cstdio>
#include <set>

#include "commands.h"
#include "config/keys.h"
#include "config/source.h"
#include "effect.h"
#include "engine/drive.h"
#include "engine/stop_signal.h"
#include "progress.h"
#include "record/contents.h"
#include "require.h"
#include "run_many.h"
#include "seeds.h"
#include "tasks.h"

namespace spectralclip::cli {
namespace {

struct RunArguments {
  std::vector<std::string> sources;
  std::vector<std::string> assignments;
  std::string seeds;  // "3" of --seed, "1..3" of --seeds
  std::string out;
  std::string budget;  // "120s" of --time-budget
  int jobs = 0;
  bool resume = false, quiet = false, print_config = false;
};

std::string shell_word(const std::string& text) {
  return text.find_first_of(" \t'\"$`\\!*?#&|;<>()[]{}~") == std::string::npos ? text : "'" + text + "'";
}

// The command that gives the same run again, wherever the directory was.
std::string command_of(const RunArguments& arguments, const lab::Config& config) {
  std::string command = "spectralclip run " + shell_word(arguments.sources.front());
  for (const std::string& assignment : arguments.assignments) command += " --set " + shell_word(assignment);
  return command + fmt::format(" --seed {}", config.seed);
}

// The first few: a study has dozens, which the report shows.
std::string results_text(const nlohmann::ordered_json& results) {
  constexpr int kShown = 8;
  std::string text;
  int count = 0;
  for (const auto& [name, value] : results.items()) {
    if (!value.is_number() || ++count > kShown) continue;
    text += fmt::format("{}{} {:.5g}", text.empty() ? "" : ", ", name, value.get<double>());
  }
  if (count > kShown) text += fmt::format(" and {} more in summary.json", count - kShown);
  return text;
}

int report_outcome(const lab::RunOutcome& outcome, const std::string& directory) {
  const auto& summary = outcome.summary;
  const std::string steps = fmt::format("{} of {} steps", summary.value("step", 0), summary.value("steps", 0));
  switch (outcome.status) {
    case lab::RunStatus::stopped:
      fmt::print("stopped after {}; `--resume` goes on: {}\n", steps, directory);
      return kStopped;
    case lab::RunStatus::diverged:
      fmt::print("diverged at step {}: {}\n", summary.value("diverged_at", 0), summary.value("reason", ""));
      return kDiverged;
    case lab::RunStatus::finished:
      break;
  }
  fmt::print("{}{} in {}: {}\n{}\n", outcome.was_done ? "already finished: " : "", steps,
             duration_text(summary.value("seconds", 0.0)), directory, results_text(summary["results"]));
  return kDone;
}

int run_one(const RunArguments& arguments, const lab::Resolved& resolved, const std::string& directory) {
  const lab::TaskInfo& task = find_task(resolved.config.task);
  lab::watch_stop_signals();
  lab::RunOutcome outcome;
  {
    RunProgress progress(resolved.config.name, arguments.quiet);
    outcome = lab::drive(task, resolved.config, {directory, command_of(arguments, resolved.config), arguments.resume},
                         progress);
    if (outcome.resumed_at > 0 && !arguments.quiet) fmt::print(stderr, "\nresumed after step {}", outcome.resumed_at);
  }
  return report_outcome(outcome, directory);
}

// The folder of everything that one call runs: --out, or runs/NAME, or runs for several names.
std::string root_of(const RunArguments& arguments, const std::string& first_name) {
  if (!arguments.out.empty()) return arguments.out;
  return arguments.sources.size() > 1 ? "runs" : "runs/" + first_name;
}

// One run: the root itself. Several names or seeds: ROOT/NAME/seed-N or ROOT/seed-N.
std::vector<RunJob> jobs_of(const RunArguments& arguments) {
  const std::vector<std::uint64_t> seeds = parse_seeds(arguments.seeds);
  const bool several = arguments.sources.size() > 1;
  std::vector<RunJob> jobs;
  std::set<std::string> names;
  for (const std::string& source : arguments.sources) {
    lab::Resolved resolved = lab::resolve(source, arguments.assignments);
    require_read(find_task(resolved.config.task), resolved);
    require_effect(resolved.config, arguments.assignments);
    const std::string name = resolved.config.name;
    SPECTRALCLIP_REQUIRE(names.insert(name).second, "two runs are called \"", name, "\": they would share a directory");
    const std::string folder = root_of(arguments, name) + (several ? "/" + name : "");
    for (const std::uint64_t seed : seeds.empty() ? std::vector{resolved.config.seed} : seeds) {
      resolved.config.seed = seed;
      jobs.push_back(
          {source, resolved, several || seeds.size() > 1 ? fmt::format("{}/seed-{}", folder, seed) : folder});
    }
  }
  return jobs;
}

// "120", "120s", "3m", "1.5h" as the assignment of train.seconds.
std::string budget_assignment(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string unit(end, text.data() + text.size());
  const double seconds = unit.empty() || unit == "s" ? 1 : unit == "m" ? 60 : unit == "h" ? 3600 : 0;
  SPECTRALCLIP_REQUIRE(error == std::errc{} && value > 0 && seconds > 0, "--time-budget ", text,
                       ": expected a time above zero, such as 120s, 3m or 1.5h");
  return fmt::format("train.seconds={}", value * seconds);
}

int run(RunArguments arguments) {
  if (!arguments.budget.empty()) arguments.assignments.push_back(budget_assignment(arguments.budget));
  const std::vector<RunJob> jobs = jobs_of(arguments);
  const lab::Config& first = jobs.front().resolved.config;
  if (arguments.print_config) {
    for (const RunJob& job : jobs)
      fmt::print("{}\n", lab::to_toml(job.resolved.config, find_task(job.resolved.config.task).groups));
    return kDone;
  }
  if (jobs.size() == 1) {
    lab::require_place_for(lab::Contents::run, jobs.front().directory);
    const int status = run_one(arguments, jobs.front().resolved, jobs.front().directory);
    if (status == kDone) write_tables(jobs, jobs.front().directory);
    return status;
  }
  return run_many(
      jobs, {arguments.assignments, arguments.jobs, arguments.resume, arguments.quiet, root_of(arguments, first.name)});
}

}  // namespace

void add_run(CLI::App& program, int& status) {
  auto* command = program.add_subcommand("run", "run experiments: presets or TOML files, one or several seeds");
  auto arguments = std::make_shared<RunArguments>();
  command->add_option("PRESET|FILE.toml", arguments->sources, "what to run; `spectralclip list` names the presets")
      ->required();
  command->add_option("--set", arguments->assignments, "key=value, as in `spectralclip list --keys`; may be repeated")
      ->expected(1)
      ->allow_extra_args(false)
      ->take_all();
  auto* seed = command->add_option("--seed", arguments->seeds, "one seed");
  command->add_option("--seeds", arguments->seeds, "several: 1..5 or 1,4,9; a folder each")->excludes(seed);
  command->add_option("--out", arguments->out, "run directory (runs/NAME); with several runs, the folder of theirs");
  command->add_option("--time-budget", arguments->budget,
                      "instead of steps: train each run for 120s, 3m, 1h (evaluation not counted)");
  command->add_option("--jobs", arguments->jobs, "runs at once (several runs; as many as there are cores)")
      ->check(CLI::Range(1, 1024));
  command->add_flag("--resume", arguments->resume, "go on with what the directory holds");
  command->add_flag("--quiet", arguments->quiet, "no progress");
  command->add_flag("--print-config", arguments->print_config, "print the resolved configuration and stop");
  command->footer(
      "Exit code: 0 finished, 3 diverged (a loss that is not finite), 130 stopped by Ctrl-C (with a\n"
      "checkpoint; --resume goes on to the same bits), 2 misuse, 1 failure.");
  command->callback([arguments, &status] { status = run(*arguments); });
}

}  // namespace spectralclip::cli
