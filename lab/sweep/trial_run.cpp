// SPDX-License-Identifier: Apache-2.0
#include "sweep/trial_run.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <filesystem>
#include <fstream>

namespace spectralclip::lab {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

bool holds_run(const fs::path& directory) {
  return fs::exists(directory / "config.toml") || fs::exists(directory / "summary.json") ||
         fs::exists(directory / "checkpoint.bin");
}

// Null when there is none or it cannot be read: the run is then taken for unfinished.
Json read_summary(const std::string& directory) {
  std::ifstream file(directory + "/summary.json");
  Json summary = file ? Json::parse(file, nullptr, false) : Json();
  return summary.is_object() ? summary : Json();
}

std::string text_at(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

double number_at(const Json& object, const char* key, double otherwise) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number() ? found->get<double>() : otherwise;
}

std::string names_in(const Json& results) {
  std::string names;
  if (results.is_object())
    for (const auto& [name, value] : results.items()) names += (names.empty() ? "" : ", ") + name;
  return names.empty() ? "none" : names;
}

// A result that is there but not finite (JSON has null for it) is a divergence that the run did not notice.
TrialOutcome finished(const Json& summary, const std::string& metric, double seconds) {
  const auto results = summary.find("results");
  const bool present = results != summary.end() && results->is_object() && results->contains(metric);
  if (!present) {
    return {.seconds = seconds,
            .message = fmt::format("no result \"{}\"; there are: {}", metric,
                                   names_in(results == summary.end() ? Json() : *results))};
  }
  const Json& value = results->at(metric);
  if (value.is_null() || (value.is_number() && !std::isfinite(value.get<double>())))
    return {.status = TrialStatus::diverged, .seconds = seconds};
  if (!value.is_number()) return {.seconds = seconds, .message = fmt::format("result \"{}\" is not a number", metric)};
  return {.status = TrialStatus::finished, .value = value.get<double>(), .seconds = seconds};
}

std::string failure(const JobEnd& end, const std::string& status, const std::string& log) {
  const std::string line = last_line(log);
  std::string what = end.signal != 0 ? fmt::format("ended by signal {}", end.signal)
                     : end.exit_code != 0
                         ? fmt::format("exit code {}", end.exit_code)
                         : fmt::format("exit code 0, but its summary says \"{}\"", status.empty() ? "nothing" : status);
  return line.empty() ? what : what + ": " + line;
}

}  // namespace

Job make_trial_job(const SweepDefinition& definition, const std::string& program, const Point& values,
                   std::uint64_t seed, const std::string& directory) {
  Job job{.command = {program, "run", definition.preset}, .log_file = directory + "/log.txt"};
  const auto set = [&job](const std::string& key, const std::string& value) {
    job.command.insert(job.command.end(), {"--set", key + "=" + value});
  };
  for (const auto& [key, value] : definition.set) set(key, value);
  for (std::size_t i = 0; i < definition.space.size(); ++i)
    set(definition.space[i].key, fmt::format("{}", values.at(i)));  // shortest text that reads back as the same number
  job.command.insert(job.command.end(), {"--seed", fmt::format("{}", seed), "--out", directory, "--quiet"});
  if (holds_run(directory)) job.command.emplace_back("--resume");
  fs::create_directories(directory);
  return job;
}

std::optional<TrialOutcome> recorded_outcome(const std::string& directory, const std::string& metric) {
  const Json summary = read_summary(directory);
  if (summary.is_null()) return std::nullopt;
  const std::string status = text_at(summary, "status");
  const double seconds = number_at(summary, "seconds", 0.0);
  if (status == "diverged") return TrialOutcome{.status = TrialStatus::diverged, .seconds = seconds};
  if (status == "finished") return finished(summary, metric, seconds);
  return std::nullopt;
}

TrialOutcome outcome_of(const JobEnd& end, const std::string& directory, const std::string& metric) {
  const Json summary = read_summary(directory);
  const std::string status = summary.is_null() ? std::string() : text_at(summary, "status");
  const double seconds = summary.is_null() ? end.seconds : number_at(summary, "seconds", end.seconds);
  if (end.exit_code == kExitDiverged) return {.status = TrialStatus::diverged, .seconds = seconds};
  if (end.exit_code == 0 && status == "diverged") return {.status = TrialStatus::diverged, .seconds = seconds};
  if (end.exit_code == 0 && status == "finished") return finished(summary, metric, seconds);
  const TrialStatus kind = end.exit_code == kExitRefused ? TrialStatus::refused : TrialStatus::failed;
  return {.status = kind, .seconds = end.seconds, .message = failure(end, status, directory + "/log.txt")};
}

bool is_locked(const std::string& directory) {
  const int descriptor = ::open((directory + "/lock").c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return false;
  const bool locked = ::flock(descriptor, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  (void)::close(descriptor);
  return locked;
}

}  // namespace spectralclip::lab
