// SPDX-License-Identifier: Apache-2.0
// What a sweep remembers: DIR/proposed.jsonl gets a line before a trial starts, DIR/trials.jsonl one when it has ended,
// each on disk before anything else happens. A trial in the first file alone was interrupted.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "sweep/json_lines.h"
#include "sweep/search.h"

namespace spectralclip::lab {

enum class TrialStatus { finished, diverged, failed };
[[nodiscard]] std::string_view name_of(TrialStatus status);

struct Trial {
  Candidate candidate;
  std::uint64_t seed = 1;
  TrialStatus status = TrialStatus::finished;
  std::optional<double> value = {};  // only when finished
  double seconds = 0.0;
  std::string message = {};  // failed: why, the log's last line
};

class TrialLog {
 public:
  // Reads both files. Throws StateFileError: damage (json_lines.h), values of other keys than the space's, a trial that
  // is there twice or that was never proposed.
  TrialLog(const std::string& directory, const SearchSpace& space, bool larger_is_better = false);

  void propose(const Candidate& candidate);
  void record(const Trial& trial);

  [[nodiscard]] const std::vector<PastAsk>& proposed() const { return proposed_; }
  [[nodiscard]] const std::vector<Trial>& trials() const { return trials_; }  // in the order of their ends
  // Values as a searcher wants them, smaller being better.
  [[nodiscard]] std::vector<PastTell> tells() const;
  [[nodiscard]] std::optional<double> cost_of(const Trial& trial) const;
  [[nodiscard]] std::vector<Candidate> interrupted() const;  // proposed, not ended
  [[nodiscard]] const Trial* best() const;                   // the best value, the earliest of equals; or none
  [[nodiscard]] const std::vector<std::string>& warnings() const { return warnings_; }
  [[nodiscard]] nlohmann::ordered_json json_of(const Trial& trial) const;  // as in trials.jsonl

 private:
  [[nodiscard]] nlohmann::ordered_json json_of(const Candidate& candidate) const;
  [[nodiscard]] Candidate candidate_of(const nlohmann::ordered_json& line) const;
  void take_proposal(const nlohmann::ordered_json& line);
  void take_trial(const nlohmann::ordered_json& line);

  bool larger_is_better_;
  std::vector<std::string> keys_;
  std::vector<std::string> warnings_;
  std::vector<PastAsk> proposed_;
  std::vector<Trial> trials_;
  std::map<std::int64_t, bool> ended_;  // trial -> whether it has ended; all that were proposed
  std::string repeated_;                // first trial number that is there twice
  std::unique_ptr<JsonLines> proposed_file_;
  std::unique_ptr<JsonLines> trials_file_;
};

}  // namespace spectralclip::lab
