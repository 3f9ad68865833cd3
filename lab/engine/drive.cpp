// SPDX-License-Identifier: Apache-2.0
#include "engine/drive.h"

#include <chrono>
#include <optional>

#include "config/keys.h"
#include "engine/stop_signal.h"
#include "record/run_directory.h"
#include "require.h"
#include "spectralclip/version.h"

namespace spectralclip::lab {
namespace {

using Clock = std::chrono::steady_clock;
constexpr double kUpdateSeconds = 0.1;  // between looks at the progress …
constexpr double kFlushSeconds = 1.0;   // … and between flushes of the lines, for whoever follows the file

// The first line of two texts that differs, for people.
std::string first_difference(const std::string& before, const std::string& now) {
  std::size_t a = 0, b = 0;
  while (a < before.size() && b < now.size()) {
    const std::string old_line = before.substr(a, before.find('\n', a) - a);
    const std::string new_line = now.substr(b, now.find('\n', b) - b);
    if (old_line != new_line) return "it has " + old_line + ", now " + new_line;
    a += old_line.size() + 1;
    b += new_line.size() + 1;
  }
  return "one has more keys than the other";
}

std::string status_text(const std::optional<nlohmann::ordered_json>& summary) {
  if (!summary) return "begun";
  return detail::concat(summary->value("status", "begun"), ", ", summary->value("step", 0), " of ",
                        summary->value("steps", 0), " steps");
}

bool is_done(const nlohmann::ordered_json& summary) {
  const std::string status = summary.value("status", "");
  return status == "finished" || status == "diverged";
}

class Run {
 public:
  Run(const TaskInfo& task, const Config& config, const DriveOptions& options, ProgressSink& sink)
      : task_(task),
        config_(config),
        options_(options),
        sink_(sink),
        directory_(options.directory),
        config_text_(to_toml(config, task.groups)) {}

  RunOutcome go() {
    if (const auto done = look()) return *done;
    experiment_ = task_.make(config_);
    begin();
    try {
      loop();
    } catch (const Diverged& diverged) {
      return end(RunStatus::diverged, diverged.what());
    }
    return end(is_over() ? RunStatus::finished : RunStatus::stopped, "");
  }

 private:
  // What the directory holds: refused, done already, or something to go on from (nullopt).
  std::optional<RunOutcome> look() {
    const auto config = directory_.config();
    if (!config) return std::nullopt;
    const auto summary = directory_.summary();
    if (!options_.resume)
      throw InvalidArgument(detail::concat(directory_.path(), " already holds a run (", status_text(summary),
                                           "); --resume goes on with it, --out takes another directory"));
    if (*config != config_text_)
      throw InvalidArgument(detail::concat("cannot resume ", directory_.path(),
                                           " with another configuration: ", first_difference(*config, config_text_)));
    if (!summary || !is_done(*summary)) return std::nullopt;
    const bool finished = (*summary)["status"] == "finished";
    return RunOutcome{finished ? RunStatus::finished : RunStatus::diverged, *summary, 0, true};
  }

  void begin() {
    double seconds = 0;
    if (const auto checkpoint = options_.resume ? directory_.checkpoint() : std::nullopt) {
      if (checkpoint->head().config != config_text_)
        throw StateFileError(directory_.path() + "/checkpoint.bin belongs to another configuration");
      experiment_->load(*checkpoint);
      step_ = resumed_at_ = checkpoint->head().step;
      seconds = checkpoint->head().seconds;
    }
    directory_.open(config_text_, step_, seconds);
    write_summary("running", {}, "");
    session_start_ = Clock::now();
  }

  void loop() {
    const std::int64_t every = config_.record.checkpoint_every;
    double shown = 0, flushed = 0;
    while (!is_over() && !stop_requested()) {
      experiment_->step(step_ + 1, directory_);
      ++step_;
      if (every > 0 && step_ % every == 0 && !is_over()) save();
      const double now = session_seconds();
      if (now - shown > kUpdateSeconds) show(shown = now);
      if (now - flushed > kFlushSeconds) {
        directory_.flush();
        flushed = now;
      }
    }
    show(session_seconds());
  }

  [[nodiscard]] bool is_over() const { return step_ >= experiment_->steps() || experiment_->done(); }
  void save() {
    directory_.save(step_, [this](StateWriter& out) { experiment_->save(out); });
  }

  void show(double now) {
    const auto [name, value] = experiment_->headline();
    sink_.update({step_, experiment_->steps(), directory_.seconds(), resumed_at_, now, name, value});
  }

  RunOutcome end(RunStatus status, const std::string& reason) {
    static constexpr const char* kNames[] = {"finished", "diverged", "stopped"};
    const nlohmann::ordered_json results =
        status == RunStatus::finished ? experiment_->results() : nlohmann::ordered_json();
    save();
    return {status, write_summary(kNames[static_cast<int>(status)], results, reason), resumed_at_, false};
  }

  nlohmann::ordered_json write_summary(const std::string& status, const nlohmann::ordered_json& results,
                                       const std::string& reason) {
    nlohmann::ordered_json summary{
        {"status", status}, {"task", config_.task},     {"name", config_.name},           {"seed", config_.seed},
        {"step", step_},    {"steps", planned_steps()}, {"seconds", directory_.seconds()}};
    if (status == "diverged") {
      summary["diverged_at"] = step_ + 1;
      summary["reason"] = reason;
    }
    summary["results"] = results.is_null() ? nlohmann::ordered_json::object() : results;
    summary["main_result"] = task_.metrics.front().name;
    for (const Metric& metric : task_.metrics)
      summary["metrics"].push_back({{"name", metric.name},
                                    {"label", metric.label},
                                    {"unit", metric.unit},
                                    {"better", metric.better == Better::smaller ? "smaller" : "larger"}});
    if (experiment_) summary.update(experiment_->notes());
    summary["command"] = options_.command;
    summary["version"] = version();
    for (const KeyInfo& info : keys_of(config_, task_.groups)) summary["settings"][info.key] = info.value;
    directory_.write_summary(summary);
    return summary;
  }

  // With a budget of time nobody knows them before the end.
  [[nodiscard]] std::int64_t planned_steps() const { return experiment_->done() ? step_ : experiment_->steps(); }

  [[nodiscard]] double session_seconds() const {
    return std::chrono::duration<double>(Clock::now() - session_start_).count();
  }

  const TaskInfo& task_;
  const Config& config_;
  const DriveOptions& options_;
  ProgressSink& sink_;
  RunDirectory directory_;
  std::string config_text_;
  std::unique_ptr<Experiment> experiment_;
  std::int64_t step_ = 0;
  std::int64_t resumed_at_ = 0;
  Clock::time_point session_start_;
};

}  // namespace

RunOutcome drive(const TaskInfo& task, const Config& config, const DriveOptions& options, ProgressSink& progress) {
  return Run(task, config, options, progress).go();
}

}  // namespace spectralclip::lab
