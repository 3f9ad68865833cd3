// SPDX-License-Identifier: Apache-2.0
// What a sweep remembers: DIR/proposed.jsonl gets a line before a trial starts, DIR/trials.jsonl one when it has ended,
// each on disk before anything else happens. A trial in the first file alone was interrupted.
//
// A run that failed for a reason outside its configuration (a full disk, a kill) leaves a line of status "failed",
// which does not end its trial: it is tried again. The search is told of trials in an order of its own, which
// proposed.jsonl keeps ("told": the trials it heard of since the proposal before), so that it can be asked the same
// again.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "sweep/json_lines.h"
#include "sweep/search.h"

namespace spectralclip::lab {

// refused: the program did not take the configuration (exit code 2).
enum class TrialStatus { finished, diverged, refused, failed };
[[nodiscard]] std::string_view name_of(TrialStatus status);

struct Trial {
  Candidate candidate;
  std::uint64_t seed = 1;
  TrialStatus status = TrialStatus::finished;
  std::optional<double> value = {};  // only when finished; the mean over the seeds
  double seconds = 0.0;
  std::string message = {};          // refused, failed: why, the log's last line
  std::vector<double> by_seed = {};  // of several seeds, in their order
};

class TrialLog {
 public:
  // Reads both files. Throws StateFileError: damage (json_lines.h), values of other keys than the space's, a trial that
  // is there twice or that was never proposed.
  TrialLog(const std::string& directory, const SearchSpace& space, bool larger_is_better = false);

  // `told`: the trials that the search was told of since the proposal before.
  void propose(const Candidate& candidate, const std::vector<std::int64_t>& told = {});
  void record(const Trial& trial);  // ends the trial, unless it failed

  [[nodiscard]] const std::vector<PastAsk>& proposed() const { return proposed_; }
  [[nodiscard]] const std::vector<Trial>& trials() const { return trials_; }      // in the order of their ends
  [[nodiscard]] const std::vector<Trial>& failures() const { return failures_; }  // of all attempts
  [[nodiscard]] bool has_ended(std::int64_t trial) const;
  [[nodiscard]] bool was_told(std::int64_t trial) const { return told_set_.contains(trial); }
  [[nodiscard]] const Trial& ended(std::int64_t trial) const;  // has_ended
  [[nodiscard]] std::vector<PastTell> tells() const;           // in the order of telling, smaller being better
  [[nodiscard]] std::optional<double> cost_of(const Trial& trial) const;  // as a searcher wants it
  [[nodiscard]] std::vector<Candidate> interrupted() const;               // proposed, not ended
  [[nodiscard]] const Trial* best() const;  // the best value, the earliest of equals; or none
  [[nodiscard]] const std::vector<std::string>& warnings() const { return warnings_; }
  [[nodiscard]] nlohmann::ordered_json json_of(const Trial& trial) const;  // as in trials.jsonl

 private:
  [[nodiscard]] nlohmann::ordered_json json_of(const Candidate& candidate) const;
  [[nodiscard]] Candidate candidate_of(const nlohmann::ordered_json& line) const;
  void take_proposal(const nlohmann::ordered_json& line);
  void take_trial(const nlohmann::ordered_json& line);
  void keep(const Trial& trial);

  bool larger_is_better_;
  std::vector<std::string> keys_;
  std::vector<std::string> warnings_;
  std::vector<PastAsk> proposed_;
  std::vector<Trial> trials_;
  std::vector<Trial> failures_;
  std::vector<std::int64_t> told_;
  std::set<std::int64_t> told_set_;
  std::map<std::int64_t, std::int64_t> ended_;  // all that were proposed -> place in trials_, or -1
  std::string repeated_;                        // first trial number that is there twice
  std::unique_ptr<JsonLines> proposed_file_;
  std::unique_ptr<JsonLines> trials_file_;
};

}  // namespace spectralclip::lab
