// SPDX-License-Identifier: Apache-2.0
#include "sweep/trial_log.h"

#include <fmt/format.h>

#include <array>

#include "spectralclip/error.h"

namespace spectralclip::lab {
namespace {

using Json = nlohmann::ordered_json;
constexpr std::array<std::string_view, 4> kStatusNames = {"finished", "diverged", "refused",
                                                          "failed"};  // order of TrialStatus

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
  for (const Json& trial : line.at("told")) told_.push_back(trial.get<std::int64_t>());
  told_set_.insert(told_.begin(), told_.end());
  PastAsk ask{candidate_of(line), static_cast<std::int64_t>(told_.size())};
  if (!ended_.emplace(ask.candidate.trial, -1).second && repeated_.empty())
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
  for (const Json& value : line.value("by_seed", Json::array())) trial.by_seed.push_back(value.get<double>());
  const auto found = ended_.find(trial.candidate.trial);
  if (repeated_.empty() && found == ended_.end())
    repeated_ = fmt::format("trial {} is not in proposed.jsonl", trial.candidate.trial);
  if (repeated_.empty() && found->second >= 0)
    repeated_ = fmt::format("trial {} is there twice", trial.candidate.trial);
  keep(trial);
}

void TrialLog::keep(const Trial& trial) {
  if (trial.status == TrialStatus::failed) return failures_.push_back(trial);
  if (const auto found = ended_.find(trial.candidate.trial); found != ended_.end()) found->second = std::ssize(trials_);
  trials_.push_back(trial);
}

bool TrialLog::has_ended(std::int64_t trial) const {
  const auto found = ended_.find(trial);
  return found != ended_.end() && found->second >= 0;
}

const Trial& TrialLog::ended(std::int64_t trial) const {
  return trials_.at(static_cast<std::size_t>(ended_.at(trial)));
}

void TrialLog::propose(const Candidate& candidate, const std::vector<std::int64_t>& told) {
  Json line = json_of(candidate);
  line["told"] = told;
  proposed_file_->append(line);
  told_.insert(told_.end(), told.begin(), told.end());
  told_set_.insert(told.begin(), told.end());
  ended_.emplace(candidate.trial, -1);
  proposed_.push_back({candidate, static_cast<std::int64_t>(told_.size())});
}

Json TrialLog::json_of(const Trial& trial) const {
  Json line = json_of(trial.candidate);
  line["seed"] = trial.seed;
  line["status"] = name_of(trial.status);
  line["value"] = trial.value ? Json(*trial.value) : Json(nullptr);
  line["seconds"] = trial.seconds;
  if (!trial.by_seed.empty()) line["by_seed"] = trial.by_seed;
  if (!trial.message.empty()) line["message"] = trial.message;
  return line;
}

void TrialLog::record(const Trial& trial) {
  trials_file_->append(json_of(trial));
  keep(trial);
}

std::optional<double> TrialLog::cost_of(const Trial& trial) const {
  if (!trial.value) return std::nullopt;
  return larger_is_better_ ? -*trial.value : *trial.value;
}

std::vector<PastTell> TrialLog::tells() const {
  std::vector<PastTell> tells;
  for (const std::int64_t trial : told_)
    if (has_ended(trial)) tells.push_back({ended(trial).candidate, cost_of(ended(trial))});
  return tells;
}

std::vector<Candidate> TrialLog::interrupted() const {
  std::vector<Candidate> open;
  for (const PastAsk& ask : proposed_)
    if (!has_ended(ask.candidate.trial)) open.push_back(ask.candidate);
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
