// SPDX-License-Identifier: Apache-2.0
#include "sweep/sweep.h"

#include <fmt/format.h>

#include <chrono>
#include <deque>
#include <filesystem>
#include <set>

#include "record/lock.h"
#include "spectralclip/error.h"
#include "sweep/jobs.h"
#include "sweep/signals.h"
#include "sweep/sweep_directory.h"
#include "sweep/trial_run.h"

namespace spectralclip::lab {
namespace {

constexpr std::int64_t kHopeless = 3;  // so many failures and nothing else: the rest would fail too
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
    const std::vector<Candidate> interrupted = log_.interrupted();
    waiting_.assign(interrupted.begin(), interrupted.end());
    for (const Candidate& candidate : interrupted) inherited_.insert(candidate.trial);
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
    save(finished ? "finished" : "stopped");
    return result(finished ? SweepStatus::finished : SweepStatus::interrupted);
  }

 private:
  [[nodiscard]] std::int64_t done() const { return static_cast<std::int64_t>(log_.trials().size()); }
  [[nodiscard]] bool complete() const {
    const bool best_done = log_.best() == nullptr || std::ssize(best_runs_) == definition_.best_seeds;
    return done() >= definition_.trials && best_done;
  }

  // Trials -----------------------------------------------------------------------------------------------------------

  JobsOutcome run_trials() {
    return run_jobs([this] { return next_trial(); }, jobs_options(), [this](const JobEnd& end) { trial_ended(end); });
  }

  // Interrupted ones first. One that came to its end without our hearing of it needs no process.
  std::optional<Job> next_trial() {
    for (;;) {
      std::optional<Candidate> candidate = next_candidate();
      if (!candidate) return std::nullopt;
      const std::string directory = trial_directory(options_.directory, candidate->trial);
      if (!wait_for_orphan(directory)) return std::nullopt;
      if (const auto outcome = recorded_outcome(directory, definition_.metric)) {
        end_trial(*candidate, *outcome);
        continue;
      }
      Job job = make_trial_job(definition_, options_.program, candidate->values, definition_.seed, directory);
      started_.push_back(std::move(*candidate));
      ++running_;
      say({});
      return job;
    }
  }

  std::optional<Candidate> next_candidate() {
    if (!waiting_.empty()) {
      Candidate candidate = std::move(waiting_.front());
      waiting_.pop_front();
      return candidate;
    }
    if (std::ssize(log_.proposed()) >= definition_.trials) return std::nullopt;
    Candidate candidate = search_->ask();
    log_.propose(candidate);
    return candidate;
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

  void trial_ended(const JobEnd& end) {
    --running_;
    const Candidate& candidate = started_.at(end.index);
    const std::string directory = trial_directory(options_.directory, candidate.trial);
    if (end.interrupted) {  // most likely stopped half-way: only a run that says it came to its end counts
      if (const auto outcome = recorded_outcome(directory, definition_.metric)) end_trial(candidate, *outcome);
      return;
    }
    const TrialOutcome outcome = outcome_of(end, directory, definition_.metric);
    if (outcome.status == TrialStatus::failed && lost_to_orphan(candidate, directory)) return;
    end_trial(candidate, outcome);
    refuse_if_hopeless();
  }

  // An orphan that had not yet locked its directory when we looked may have got there before our process, which then
  // failed. The trial goes back to the queue, where the orphan is waited for.
  bool lost_to_orphan(const Candidate& candidate, const std::string& directory) {
    if (!inherited_.contains(candidate.trial)) return false;
    if (!is_locked(directory) && !recorded_outcome(directory, definition_.metric)) return false;
    waiting_.push_front(candidate);
    return true;
  }

  void end_trial(const Candidate& candidate, const TrialOutcome& outcome) {
    const Trial trial{candidate, definition_.seed, outcome.status, outcome.value, outcome.seconds, outcome.message};
    log_.record(trial);
    search_->tell(candidate, log_.cost_of(trial));
    ++ended_here_;
    if (trial.status == TrialStatus::failed) ++failed_here_;
    save("running");
    say(trial.message.empty() ? std::string() : fmt::format("trial {} failed: {}", candidate.trial, trial.message));
  }

  void refuse_if_hopeless() {
    if (failed_here_ < hopeless_after_ || failed_here_ < ended_here_) return;
    save("stopped");
    const Trial& last = log_.trials().back();
    throw Error(fmt::format("the first {} trials all failed; the last one: {} (log: {}/log.txt)", failed_here_,
                            last.message, trial_directory(options_.directory, last.candidate.trial)));
  }

  // The best once more -----------------------------------------------------------------------------------------------

  JobsOutcome run_best() {
    const Trial* best = log_.best();
    if (best == nullptr || definition_.best_seeds == 0) return JobsOutcome::finished;
    phase_ = SweepPhase::best;
    settle_best(log_, options_.directory);
    std::deque<std::uint64_t> seeds;
    for (std::int64_t seed = 1; seed <= definition_.best_seeds; ++seed)
      seeds.push_back(static_cast<std::uint64_t>(seed));
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
      const bool lost = failed && is_locked(directory);  // to an orphan, as above
      if (lost) seeds.push_front(started.at(end.index));
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
      if (trial.status == TrialStatus::failed) ++progress.failed;
    }
    progress.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
    options_.on_event(progress);
  }

  [[nodiscard]] SweepResult result(SweepStatus status) const { return {status, done(), best_trial(), best_runs_}; }

  const SweepDefinition& definition_;
  const SweepOptions& options_;
  SignalWatch signals_;
  TrialLog log_;
  std::unique_ptr<Search> search_;
  std::vector<BestRun> best_runs_;
  std::deque<Candidate> waiting_;     // interrupted, to be finished
  std::vector<Candidate> started_;    // by index of the job
  std::set<std::int64_t> inherited_;  // trials that an earlier process proposed and did not see end
  SweepPhase phase_ = SweepPhase::trials;
  std::int64_t running_ = 0;
  std::int64_t ended_here_ = 0;  // in this process
  std::int64_t failed_here_ = 0;
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
  wait_for_lock(options.directory);
  const DirectoryLock lock(options.directory);
  settle_definition(definition, options.directory, options.resume);
  return SweepRun(definition, options).run();
}

}  // namespace spectralclip::lab
