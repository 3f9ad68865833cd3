// SPDX-License-Identifier: Apache-2.0
// `spectralclip sweep`: a search over hyperparameters, trials as processes.
#include "sweep/sweep.h"

#include <fmt/format.h>

#include <filesystem>
#include <thread>

#include "clipper/atomic_file.h"
#include "commands.h"
#include "config/keys.h"
#include "config/source.h"
#include "effect.h"
#include "progress.h"
#include "require.h"
#include "self_path.h"
#include "tasks.h"

namespace spectralclip::cli {
namespace {

struct SweepArguments {
  std::string source, out;
  std::vector<std::string> assignments;
  std::int64_t trials = 0, seeds = 0, seed = -1;
  int jobs = 0;
  bool resume = false, quiet = false, print_config = false;
};

lab::SweepDefinition definition_of(const SweepArguments& arguments) {
  const lab::Preset* preset = lab::find_preset(arguments.source);
  std::string text, name = arguments.source;
  if (preset != nullptr) {
    SPECTRALCLIP_REQUIRE(preset->is_sweep, preset->name, " is no sweep but a single run: `spectralclip run ",
                         preset->name, "`");
    text = preset->text;
  } else {
    text = read_text(arguments.source);
    name = std::filesystem::path(arguments.source).stem().string();
  }
  lab::SweepDefinition definition = lab::parse_sweep(text, name);
  for (const std::string& assignment : arguments.assignments) {
    lab::Config scratch;  // refuses what a run would refuse, before any trial
    const std::string key = lab::set_assignment(scratch, assignment);
    definition.set[key] = assignment.substr(assignment.find('=') + 1);
  }
  if (arguments.trials > 0) definition.trials = arguments.trials;
  if (arguments.seeds > 0) definition.seeds = arguments.seeds;
  if (arguments.seed >= 0) definition.seed = static_cast<std::uint64_t>(arguments.seed);
  validate(definition);
  return definition;
}

// What every trial would refuse, said once: the preset, its overrides and the keys that are searched.
void require_runnable(const lab::SweepDefinition& definition) {
  std::vector<std::string> assignments;
  for (const auto& [key, value] : definition.set) assignments.push_back(key + "=" + value);
  for (const lab::Axis& axis : definition.space)
    for (const double value : {axis.low, axis.high}) assignments.push_back(fmt::format("{}={}", axis.key, value));
  const lab::Resolved resolved = lab::resolve(definition.preset, assignments);
  const lab::TaskInfo& task = find_task(resolved.config.task);
  require_read(task, resolved);
  for (const lab::Metric& metric : task.metrics)
    SPECTRALCLIP_REQUIRE(
        metric.name != definition.metric || (metric.better == lab::Better::larger) == definition.larger_is_better,
        "sweep.better = \"", definition.larger_is_better ? "larger" : "smaller", "\", but ", metric.name, " of ",
        task.name, " is better when it is ", definition.larger_is_better ? "smaller" : "larger");
  require_effect(resolved.config, assignments);
}

std::string values_text(const lab::SweepDefinition& definition, const lab::Trial& trial) {
  std::string text;
  for (std::size_t i = 0; i < definition.space.size(); ++i)
    text += fmt::format("{}{} = {:.4g}", i > 0 ? ", " : "", definition.space[i].key, trial.candidate.values[i]);
  return text;
}

void show(ProgressLine& trials, ProgressLine& best, const lab::SweepProgress& progress, std::int64_t begun) {
  if (progress.phase == lab::SweepPhase::best)
    return best.show(progress.done, progress.total, "seeds of the best", progress.seconds);
  std::string detail = progress.best ? fmt::format("best {:.4g}", progress.best->value.value_or(0)) : "";
  if (progress.diverged > 0) detail += fmt::format(", {} diverged", progress.diverged);
  if (progress.refused > 0) detail += fmt::format(", {} refused", progress.refused);
  if (progress.failed > 0) detail += fmt::format(", {} failed", progress.failed);
  trials.show(progress.done, progress.total, detail, progress.seconds, begun);
}

void print_best(const lab::SweepDefinition& definition, const lab::SweepResult& result) {
  if (!result.best) return fmt::print("no trial has a value\n");
  fmt::print("best of {}: {} {:.5g} (trial {}): {}\n", result.done, definition.metric, result.best->value.value_or(0),
             result.best->candidate.trial, values_text(definition, *result.best));
  if (definition.seeds > 1) fmt::print("  that is the mean over {} seeds\n", definition.seeds);
  if (!result.best_runs.empty()) fmt::print("over seeds that the search did not see:\n");
  for (const lab::BestRun& run : result.best_runs)
    fmt::print("  seed {}: {}\n", run.seed,
               run.value ? fmt::format("{:.5g}", *run.value) : std::string(name_of(run.status)));
}

void print_failures(const lab::SweepResult& result) {
  if (result.status != lab::SweepStatus::incomplete) return;
  const std::string what =
      result.failed > 0 ? fmt::format("{} trials failed", result.failed) : "runs of the best failed";
  fmt::print(stderr,
             "spectralclip: {} for reasons outside their settings and count for nothing; the last one: {}\n"
             "`--resume` tries them again.\n",
             what, result.failure.empty() ? "see its log.txt" : result.failure);
}

int sweep(const SweepArguments& arguments) {
  const lab::SweepDefinition definition = definition_of(arguments);
  require_runnable(definition);
  if (arguments.print_config) {
    fmt::print("{}", lab::to_toml(definition));
    return kDone;
  }
  const std::string directory = arguments.out.empty() ? "runs/" + definition.name : arguments.out;
  const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  lab::SweepResult result;
  {
    ProgressLine trials(definition.name, arguments.quiet), best(definition.name + ", best", arguments.quiet);
    std::int64_t begun = -1;  // trials that were there before
    const auto on_event = [&](const lab::SweepProgress& progress) {
      if (begun < 0) begun = progress.done;
      show(trials, best, progress, begun);
    };
    result = lab::run_sweep(definition, {.directory = directory,
                                         .jobs = arguments.jobs > 0 ? arguments.jobs : cores,
                                         .resume = arguments.resume,
                                         .program = self_path(),
                                         .on_event = on_event});
  }
  if (result.status == lab::SweepStatus::interrupted) {
    fmt::print("stopped after {} trials; `--resume` goes on: {}\n", result.done, directory);
    return kStopped;
  }
  if (result.status == lab::SweepStatus::already_finished) fmt::print("already finished: {}\n", directory);
  print_best(definition, result);
  print_failures(result);
  fmt::print("`spectralclip report {}` draws it.\n", directory);
  return result.status == lab::SweepStatus::incomplete ? 1 : kDone;
}

}  // namespace

void add_sweep(CLI::App& program, int& status) {
  auto* command = program.add_subcommand("sweep", "search hyperparameters: grid, random or global");
  auto arguments = std::make_shared<SweepArguments>();
  command->add_option("SWEEP|FILE.toml", arguments->source, "what to search; `spectralclip list` names the sweeps")
      ->required();
  command->add_option("--set", arguments->assignments, "key=value for every trial; may be repeated")
      ->expected(1)
      ->allow_extra_args(false)
      ->take_all();
  command->add_option("--trials", arguments->trials, "instead of the definition's")->check(CLI::Range(1, 1000000));
  command->add_option("--seed", arguments->seed, "first seed of every trial, and of the search (the definition's)")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 62));
  command->add_option("--seeds-per-trial", arguments->seeds, "the mean over so many seeds decides (the definition's)")
      ->check(CLI::Range(1, 1000));
  command->add_option("--out", arguments->out, "sweep directory (runs/NAME)");
  command->add_option("--jobs", arguments->jobs, "trials at once (as many as there are cores)")
      ->check(CLI::Range(1, 1024));
  command->add_flag("--resume", arguments->resume, "go on with what the directory holds");
  command->add_flag("--quiet", arguments->quiet, "no progress");
  command->add_flag("--print-config", arguments->print_config, "print the definition and stop");
  command->callback([arguments, &status] { status = sweep(*arguments); });
}

}  // namespace spectralclip::cli
