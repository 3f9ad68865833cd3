// SPDX-License-Identifier: Apache-2.0
#include "sweep/sweep.h"

#include <fmt/format.h>

#include <chrono>
#include <deque>
#include <filesystem>
#include <map>
#include <set>

#include "record/contents.h"
#include "record/lock.h"
#include "spectralclip/error.h"
#include "sweep/jobs.h"
#include "sweep/open_trial.h"
#include "sweep/signals.h"
#include "sweep/sweep_directory.h"
#include "sweep/trial_run.h"

namespace spectralclip::lab {
namespace {

constexpr std::int64_t kHopeless = 3;  // so many failures in a row: the rest would fail too
constexpr int kAttempts = 2;           // of a run that fails for a reason outside its configuration
constexpr double kOrphanPoll = 0.25;   // seconds
constexpr int kLockPolls = 20;

class SweepRun {
 public:
  SweepRun(const SweepDefinition& definition, const SweepOptions& options)
      : definition_(definition),
        options_(options),
        log_(options.directory, definition.space, definition.larger_is_better),
        search_(resume_search(definition.search, definition.space, definition.seed, log_.proposed(), log_.tells())),
        best_runs_(recorded_best_runs(definition, log_, options.directory)) {
    for (const Candidate& candidate : log_.interrupted()) {
      inherited_.insert(candidate.trial);
      open(candidate);
    }
    hopeless_after_ = std::min<std::int64_t>(kHopeless, definition.trials - done());
  }

  SweepResult run() {
    for (const std::string& warning : log_.warnings()) say(warning);
    if (complete()) {
      say("nothing to do: the sweep is finished");
      return result(SweepStatus::already_finished);
    }
    save("running");
    say({});
    const bool finished = run_trials() == JobsOutcome::finished && run_best() == JobsOutcome::finished;
    const SweepStatus status = !finished    ? SweepStatus::interrupted
                               : complete() ? SweepStatus::finished
                                            : SweepStatus::incomplete;
    save(!finished ? "stopped" : complete() ? "finished" : "incomplete");
    return result(status);
  }

 private:
  [[nodiscard]] std::int64_t done() const { return static_cast<std::int64_t>(log_.trials().size()); }
  [[nodiscard]] bool complete() const {
    const bool best_done = log_.best() == nullptr || std::ssize(best_runs_) == definition_.best_seeds;
    return done() >= definition_.trials && best_done;
  }

  // Trials -----------------------------------------------------------------------------------------------------------

  JobsOutcome run_trials() {
    return run_jobs([this] { return next_job(); }, jobs_options(), [this](const JobEnd& end) { run_ended(end); });
  }

  // A run that came to its end without our hearing of it needs no process.
  std::optional<Job> next_job() {
    for (;;) {
      const std::optional<RunKey> key = next_run();
      if (!key) return std::nullopt;
      const std::string directory = directory_of(*key);
      if (!wait_for_orphan(directory)) return std::nullopt;
      const auto outcome = recorded_outcome(directory, definition_.metric);
      if (outcome && outcome->status != TrialStatus::failed) {
        run_done(*key, *outcome);
        continue;
      }
      Job job =
          make_trial_job(definition_, options_.program, open_.at(key->trial).candidate.values, key->seed, directory);
      started_.push_back(*key);
      ++running_;
      say({});
      return job;
    }
  }

  // Interrupted ones first.
  std::optional<RunKey> next_run() {
    if (waiting_.empty() && !propose()) return std::nullopt;
    const RunKey key = waiting_.front();
    waiting_.pop_front();
    return key;
  }

  void open(const Candidate& candidate) {
    open_[candidate.trial].candidate = candidate;
    for (std::int64_t i = 0; i < definition_.seeds; ++i)
      waiting_.push_back({candidate.trial, definition_.seed + static_cast<std::uint64_t>(i)});
  }

  // Asks the search for a trial; false: there is none, or none yet. The search hears of trials in the order of their
  // numbers and always of the same ones before a question, whatever ended first: it does not depend on the jobs.
  bool propose() {
    const std::int64_t next = std::ssize(log_.proposed()) + 1;
    if (next > definition_.trials) return false;
    std::vector<std::int64_t> told;
    if (definition_.search == SearchKind::global) {
      const std::int64_t known = next - definition_.ahead;
      for (std::int64_t trial = 1; trial <= known; ++trial)
        if (!log_.has_ended(trial)) return false;
      for (std::int64_t trial = 1; trial <= known; ++trial)
        if (!log_.was_told(trial)) told.push_back(trial);
    }
    for (const std::int64_t trial : told) search_->tell(log_.ended(trial).candidate, log_.cost_of(log_.ended(trial)));
    const Candidate candidate = search_->ask();
    log_.propose(candidate, told);
    open(candidate);
    return true;
  }

  [[nodiscard]] std::string directory_of(const RunKey& key) const {
    return run_directory(definition_, options_.directory, key.trial, key.seed);
  }

  // A child of a sweep that was killed may still be at work in its directory: let it finish. False: interrupted.
  bool wait_for_orphan(const std::string& directory) {
    if (is_locked(directory)) say(directory + ": still running from before; waiting for it");
    while (is_locked(directory)) {
      if (signals_.interruptions() > 0) return false;
      signals_.wait(kOrphanPoll);
    }
    return true;
  }

  void run_ended(const JobEnd& end) {
    --running_;
    const RunKey key = started_.at(end.index);
    const std::string directory = directory_of(key);
    const auto recorded = recorded_outcome(directory, definition_.metric);
    if (end.interrupted) {  // most likely stopped half-way: only a run that says it came to its end counts
      if (recorded && recorded->status != TrialStatus::failed) run_done(key, *recorded);
      return;
    }
    const TrialOutcome outcome = outcome_of(end, directory, definition_.metric);
    if (outcome.status != TrialStatus::failed) return run_done(key, outcome);
    if (lost_to_orphan(key, directory))
      waiting_.push_front(key);  // where the orphan is waited for
    else
      run_failed(key, outcome);
  }

  // An orphan that had not yet locked its directory when we looked may have got there before our process, which then
  // failed.
  bool lost_to_orphan(const RunKey& key, const std::string& directory) {
    if (!inherited_.contains(key.trial)) return false;
    const auto recorded = recorded_outcome(directory, definition_.metric);
    return is_locked(directory) || (recorded && recorded->status != TrialStatus::failed);
  }

  void run_done(const RunKey& key, const TrialOutcome& outcome) {
    const auto found = open_.find(key.trial);
    if (found == open_.end()) return;  // another seed has decided
    found->second.runs[key.seed] = outcome;
    if (outcome.status == TrialStatus::finished && std::ssize(found->second.runs) < definition_.seeds) return;
    const Trial trial = combined(found->second, definition_.seed);
    open_.erase(found);
    std::erase_if(waiting_, [&](const RunKey& waiting) { return waiting.trial == key.trial; });
    log_.record(trial);
    failed_in_a_row_ = 0;
    save("running");
    say(trial.message.empty() ? std::string() : fmt::format("trial {} was refused: {}", key.trial, trial.message));
  }

  // Not the configuration's fault: noted, tried once more, and not told to the search.
  void run_failed(const RunKey& key, const TrialOutcome& outcome) {
    const auto found = open_.find(key.trial);
    if (found == open_.end()) return;
    log_.record({.candidate = found->second.candidate,
                 .seed = key.seed,
                 .status = TrialStatus::failed,
                 .seconds = outcome.seconds,
                 .message = outcome.message});
    const bool again = ++found->second.failures < kAttempts;
    if (again) waiting_.push_back(key);
    save("running");
    say(fmt::format("trial {} failed{}: {}", key.trial, again ? ", once more" : "", outcome.message));
    if (!again) ++failed_in_a_row_;
    refuse_if_hopeless();
  }

  void refuse_if_hopeless() {
    if (failed_in_a_row_ < hopeless_after_) return;
    save("stopped");
    const Trial& last = log_.failures().back();
    throw Error(
        fmt::format("{} trials in a row failed; the last one: {} (log: {}/log.txt). `--resume` tries them again",
                    failed_in_a_row_, last.message, directory_of({last.candidate.trial, last.seed})));
  }

  // The best once more -----------------------------------------------------------------------------------------------

  JobsOutcome run_best() {
    const Trial* best = log_.best();
    if (best == nullptr || definition_.best_seeds == 0) return JobsOutcome::finished;
    phase_ = SweepPhase::best;
    settle_best(log_, options_.directory);
    const std::vector<std::uint64_t> unseen = unseen_seeds(definition_);
    std::deque<std::uint64_t> seeds(unseen.begin(), unseen.end());
    std::vector<std::uint64_t> started;
    const auto next = [&]() -> std::optional<Job> {
      while (!seeds.empty()) {
        const std::uint64_t seed = seeds.front();
        const std::string directory = best_directory(options_.directory, seed);
        if (!wait_for_orphan(directory)) return std::nullopt;
        seeds.pop_front();
        if (recorded_outcome(directory, definition_.metric)) continue;
        started.push_back(seed);
        ++running_;
        return make_trial_job(definition_, options_.program, best->candidate.values, seed, directory);
      }
      return std::nullopt;
    };
    const auto ended = [&](const JobEnd& end) {
      --running_;
      const std::string directory = best_directory(options_.directory, started.at(end.index));
      const TrialOutcome outcome = outcome_of(end, directory, definition_.metric);
      best_runs_ = recorded_best_runs(definition_, log_, options_.directory);
      save("running");
      const bool failed = !end.interrupted && outcome.status == TrialStatus::failed;
      const std::uint64_t seed = started.at(end.index);
      const bool lost = failed && is_locked(directory);  // to an orphan, as above
      const bool again = failed && !lost && ++best_failures_[seed] < kAttempts;
      if (lost || again) seeds.push_front(seed);
      say(failed && !lost ? fmt::format("{} failed: {}", directory, outcome.message) : std::string());
    };
    const JobsOutcome outcome = run_jobs(next, jobs_options(), ended);
    best_runs_ = recorded_best_runs(definition_, log_, options_.directory);
    return outcome;
  }

  // Telling ----------------------------------------------------------------------------------------------------------

  JobsOptions jobs_options() {
    return {.max_parallel = options_.jobs, .on_tick = [this] { say({}); }};
  }

  void save(const char* status) const { write_summary(definition_, log_, best_runs_, status, options_.directory); }

  [[nodiscard]] std::optional<Trial> best_trial() const {
    const Trial* best = log_.best();
    return best == nullptr ? std::nullopt : std::optional(*best);
  }

  void say(const std::string& message) const {
    if (!options_.on_event) return;
    const bool trials = phase_ == SweepPhase::trials;
    SweepProgress progress{.phase = phase_,
                           .done = trials ? done() : std::ssize(best_runs_),
                           .total = trials ? definition_.trials : definition_.best_seeds,
                           .running = running_,
                           .best = best_trial(),
                           .message = message};
    for (const Trial& trial : log_.trials()) {
      if (trial.status == TrialStatus::diverged) ++progress.diverged;
      if (trial.status == TrialStatus::refused) ++progress.refused;
    }
    progress.failed = failed_trials(log_);
    progress.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
    options_.on_event(progress);
  }

  [[nodiscard]] SweepResult result(SweepStatus status) const {
    const std::string failure = log_.failures().empty() ? std::string() : log_.failures().back().message;
    return {status, done(), failed_trials(log_), failure, best_trial(), best_runs_};
  }

  const SweepDefinition& definition_;
  const SweepOptions& options_;
  SignalWatch signals_;
  TrialLog log_;
  std::unique_ptr<Search> search_;
  std::vector<BestRun> best_runs_;
  std::map<std::int64_t, OpenTrial> open_;  // by trial
  std::deque<RunKey> waiting_;              // runs of open trials
  std::vector<RunKey> started_;             // by index of the job
  std::set<std::int64_t> inherited_;        // trials that an earlier process proposed and did not see end
  SweepPhase phase_ = SweepPhase::trials;
  std::int64_t running_ = 0;
  std::map<std::uint64_t, int> best_failures_;  // by seed
  std::int64_t failed_in_a_row_ = 0;            // trials, in this process
  std::int64_t hopeless_after_ = kHopeless;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// A process that was killed while it started a child leaves the lock to that child until its exec, for a moment.
void wait_for_lock(const std::string& directory) {
  SignalWatch signals;
  for (int i = 0; i < kLockPolls && is_locked(directory) && signals.interruptions() == 0; ++i) signals.wait(0.05);
}

void apply_sets(SweepDefinition& definition, const std::vector<std::string>& sets) {
  for (const std::string& text : sets) {
    const std::size_t equals = text.find('=');
    if (equals == 0 || equals == std::string::npos)
      throw InvalidArgument(fmt::format("--set {}: give key=value", text));
    definition.set[text.substr(0, equals)] = text.substr(equals + 1);
  }
}

}  // namespace

SweepResult run_sweep(SweepDefinition definition, const SweepOptions& options) {
  apply_sets(definition, options.sets);
  validate(definition);
  if (options.directory.empty()) throw InvalidArgument("a sweep needs a directory");
  if (options.jobs < 1) throw InvalidArgument(fmt::format("{} jobs at once; allowed: 1 or more", options.jobs));
  if (options.resume && !std::filesystem::exists(options.directory))
    throw InvalidArgument(options.directory + " does not exist: nothing to resume");
  require_place_for(Contents::sweep, options.directory);
  wait_for_lock(options.directory);
  const DirectoryLock lock(options.directory);
  settle_definition(definition, options.directory, options.resume);
  return SweepRun(definition, options).run();
}

}  // namespace spectralclip::lab
