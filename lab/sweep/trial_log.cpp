// SPDX-License-Identifier: Apache-2.0
#include "sweep/trial_log.h"

#include <fmt/format.h>

#include <array>

#include "spectralclip/error.h"

namespace spectralclip::lab {
namespace {

using Json = nlohmann::ordered_json;
constexpr std::array<std::string_view, 3> kStatusNames = {"finished", "diverged", "failed"};  // order of TrialStatus

TrialStatus status_named(const std::string& name) {
  for (std::size_t i = 0; i < kStatusNames.size(); ++i)
    if (kStatusNames.at(i) == name) return static_cast<TrialStatus>(i);
  throw StateFileError("unknown status \"" + name + "\"");
}

}  // namespace

std::string_view name_of(TrialStatus status) { return kStatusNames.at(static_cast<std::size_t>(status)); }

TrialLog::TrialLog(const std::string& directory, const SearchSpace& space, bool larger_is_better)
    : larger_is_better_(larger_is_better) {
  for (const Axis& axis : space) keys_.push_back(axis.key);
  const auto open = [&](const char* name, void (TrialLog::*take)(const Json&)) {
    const std::string path = directory + "/" + name;
    std::string warning;
    auto file = std::make_unique<JsonLines>(
        path, [this, take](const Json& line) { (this->*take)(line); }, warning);
    if (!warning.empty()) warnings_.push_back(warning);
    if (!repeated_.empty()) throw StateFileError(path + ": " + repeated_);
    return file;
  };
  proposed_file_ = open("proposed.jsonl", &TrialLog::take_proposal);
  trials_file_ = open("trials.jsonl", &TrialLog::take_trial);
}

Json TrialLog::json_of(const Candidate& candidate) const {
  Json values = Json::object();
  for (std::size_t i = 0; i < keys_.size(); ++i) values[keys_[i]] = candidate.values.at(i);
  return {{"trial", candidate.trial}, {"values", values}};
}

Candidate TrialLog::candidate_of(const Json& line) const {
  Candidate candidate{line.at("trial").get<std::int64_t>(), {}};
  const Json& values = line.at("values");
  for (const std::string& key : keys_) candidate.values.push_back(values.at(key).get<double>());
  if (values.size() != keys_.size()) throw StateFileError("values of other keys than the sweep's");
  return candidate;
}

// A repeated number is no damage that may be cut off, so it is noted here and thrown by the constructor.
void TrialLog::take_proposal(const Json& line) {
  PastAsk ask{candidate_of(line), line.at("told").get<std::int64_t>()};
  if (!ended_.emplace(ask.candidate.trial, false).second && repeated_.empty())
    repeated_ = fmt::format("trial {} is there twice", ask.candidate.trial);
  proposed_.push_back(std::move(ask));
}

void TrialLog::take_trial(const Json& line) {
  Trial trial{.candidate = candidate_of(line),
              .seed = line.at("seed").get<std::uint64_t>(),
              .status = status_named(line.at("status").get<std::string>()),
              .value = std::nullopt,
              .seconds = line.at("seconds").get<double>(),
              .message = line.value("message", std::string())};
  if (const Json& value = line.at("value"); !value.is_null()) trial.value = value.get<double>();
  const auto found = ended_.find(trial.candidate.trial);
  if (repeated_.empty() && found == ended_.end())
    repeated_ = fmt::format("trial {} is not in proposed.jsonl", trial.candidate.trial);
  if (repeated_.empty() && found->second) repeated_ = fmt::format("trial {} is there twice", trial.candidate.trial);
  if (found != ended_.end()) found->second = true;
  trials_.push_back(std::move(trial));
}

void TrialLog::propose(const Candidate& candidate) {
  PastAsk ask{candidate, static_cast<std::int64_t>(trials_.size())};
  Json line = json_of(candidate);
  line["told"] = ask.told;
  proposed_file_->append(line);
  ended_.emplace(candidate.trial, false);
  proposed_.push_back(std::move(ask));
}

Json TrialLog::json_of(const Trial& trial) const {
  Json line = json_of(trial.candidate);
  line["seed"] = trial.seed;
  line["status"] = name_of(trial.status);
  line["value"] = trial.value ? Json(*trial.value) : Json(nullptr);
  line["seconds"] = trial.seconds;
  if (!trial.message.empty()) line["message"] = trial.message;
  return line;
}

void TrialLog::record(const Trial& trial) {
  trials_file_->append(json_of(trial));
  ended_.at(trial.candidate.trial) = true;
  trials_.push_back(trial);
}

std::optional<double> TrialLog::cost_of(const Trial& trial) const {
  if (!trial.value) return std::nullopt;
  return larger_is_better_ ? -*trial.value : *trial.value;
}

std::vector<PastTell> TrialLog::tells() const {
  std::vector<PastTell> tells;
  for (const Trial& trial : trials_) tells.push_back({trial.candidate, cost_of(trial)});
  return tells;
}

std::vector<Candidate> TrialLog::interrupted() const {
  std::vector<Candidate> open;
  for (const PastAsk& ask : proposed_)
    if (!ended_.at(ask.candidate.trial)) open.push_back(ask.candidate);
  return open;
}

const Trial* TrialLog::best() const {
  const Trial* best = nullptr;
  for (const Trial& trial : trials_) {
    if (!trial.value) continue;
    const bool earlier =
        best != nullptr && *trial.value == *best->value && trial.candidate.trial < best->candidate.trial;
    if (best == nullptr || *cost_of(trial) < *cost_of(*best) || earlier) best = &trial;
  }
  return best;
}

}  // namespace spectralclip::lab
