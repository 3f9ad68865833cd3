// SPDX-License-Identifier: Apache-2.0
// The trial log after kills and damage.
#include <gtest/gtest.h>

#include "spectralclip/error.h"
#include "sweep/trial_log.h"
#include "sweep_program.h"

namespace spectralclip::lab {
namespace {

using testing::lines_of;
using testing::read_text;
using testing::write_text;

const SearchSpace kSpace = {{"optimizer.lr", 1e-4, 1e-1, Scale::log}, {"clip.tau", 0.01, 10.0}};

Trial make_trial(std::int64_t number, std::optional<double> value) {
  return {.candidate = {number, {0.1 / static_cast<double>(number), 1.0 / 3.0}},
          .seed = 1,
          .status = value ? TrialStatus::finished : TrialStatus::diverged,
          .value = value,
          .seconds = 2.5};
}

// Four proposed, three ended in the order 2, 1, 3.
void fill(const ScratchFolder& folder) {
  TrialLog log(folder.path(), kSpace);
  for (const std::int64_t number : {1, 2, 3, 4}) log.propose(make_trial(number, 0).candidate);
  log.record(make_trial(2, 0.5));
  log.record(make_trial(1, std::nullopt));
  log.record(make_trial(3, 0.1));
}

TEST(TrialLog, LargerValuesAreBetterWhereTheSweepSaysSo) {
  const ScratchFolder folder;
  fill(folder);
  TrialLog log(folder.path(), kSpace, /*larger_is_better=*/true);
  EXPECT_EQ(log.best()->candidate.trial, 2);
  log.propose(make_trial(5, 0).candidate, {2, 1, 3});  // told in this order before it was asked again
  const std::vector<PastTell> tells = log.tells();     // a searcher goes down
  ASSERT_EQ(tells.size(), 3U);
  EXPECT_EQ(tells[0].value, -0.5);
  EXPECT_FALSE(tells[1].value);
  EXPECT_EQ(tells[2].value, -0.1);
}

std::string refusal_of(const ScratchFolder& folder) {
  try {
    const TrialLog log(folder.path(), kSpace);
  } catch (const StateFileError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(TrialLog, ReadsBackWhatWasWritten) {
  const ScratchFolder folder;
  fill(folder);
  const TrialLog log(folder.path(), kSpace);
  EXPECT_TRUE(log.warnings().empty());
  ASSERT_EQ(log.trials().size(), 3U);
  EXPECT_EQ(log.trials()[0].candidate.trial, 2);
  EXPECT_EQ(log.trials()[0].candidate.values, make_trial(2, 0).candidate.values);  // to the last bit
  EXPECT_EQ(log.trials()[1].status, TrialStatus::diverged);
  EXPECT_FALSE(log.trials()[1].value);
  EXPECT_EQ(log.best()->candidate.trial, 3);
  ASSERT_EQ(log.interrupted().size(), 1U);
  EXPECT_EQ(log.interrupted()[0].trial, 4);
  EXPECT_EQ(log.proposed()[3].told, 0);
  const auto line = nlohmann::json::parse(lines_of(folder / "trials.jsonl")[1]);
  EXPECT_TRUE(line["value"].is_null());
  EXPECT_EQ(line["status"], "diverged");
  EXPECT_EQ(line["values"]["clip.tau"], 1.0 / 3.0);
}

TEST(TrialLog, AFailedAttemptEndsNoTrialAndIsNotTold) {
  const ScratchFolder folder;
  {
    TrialLog log(folder.path(), kSpace);
    log.propose(make_trial(1, 0).candidate);
    Trial failed = make_trial(1, std::nullopt);
    failed.status = TrialStatus::failed;
    failed.message = "No space left";
    log.record(failed);
    log.record(failed);
    log.propose(make_trial(2, 0).candidate);
    log.record(make_trial(2, 0.25));
    log.propose(make_trial(3, 0).candidate, {2});
  }
  TrialLog log(folder.path(), kSpace);
  EXPECT_EQ(log.trials().size(), 1U);
  EXPECT_EQ(log.failures().size(), 2U);
  EXPECT_FALSE(log.has_ended(1));
  ASSERT_EQ(log.interrupted().size(), 2U);
  EXPECT_EQ(log.interrupted()[0].trial, 1);
  ASSERT_EQ(log.tells().size(), 1U);
  EXPECT_EQ(log.tells()[0].candidate.trial, 2);
  EXPECT_EQ(log.proposed()[2].told, 1);
  log.record(make_trial(1, 0.5));
  EXPECT_EQ(log.best()->candidate.trial, 2);
  EXPECT_TRUE(log.interrupted().size() == 1 && !log.was_told(1) && log.was_told(2));
}

TEST(TrialLog, CutsATornLastLineAtEveryLength) {
  const ScratchFolder folder;
  fill(folder);
  const std::string whole = read_text(folder / "trials.jsonl");
  const std::size_t last = whole.rfind('\n', whole.size() - 2) + 1;
  for (std::size_t length = last + 1; length < whole.size(); ++length) {
    write_text(folder / "trials.jsonl", whole.substr(0, length));
    TrialLog log(folder.path(), kSpace);
    ASSERT_EQ(log.trials().size(), 2U) << length;
    ASSERT_EQ(log.warnings().size(), 1U);
    EXPECT_NE(log.warnings()[0].find("trials.jsonl, line 3"), std::string::npos);
    log.record(make_trial(3, 0.1));  // goes on cleanly behind the cut
    EXPECT_EQ(read_text(folder / "trials.jsonl"), whole);
  }
}

TEST(TrialLog, CutsALastLineOfGarbage) {
  const ScratchFolder folder;
  fill(folder);
  const std::string whole = read_text(folder / "trials.jsonl");
  for (const std::string& garbage : {std::string(40, '\0') + "\n", std::string("{}\n"), std::string("[1,2]\n")}) {
    write_text(folder / "trials.jsonl", whole + garbage);
    const TrialLog log(folder.path(), kSpace);
    EXPECT_EQ(log.trials().size(), 3U);
    EXPECT_EQ(log.warnings().size(), 1U);
    EXPECT_EQ(read_text(folder / "trials.jsonl"), whole);
  }
}

TEST(TrialLog, RefusesDamageFurtherUpAndLeavesTheFileAlone) {
  const ScratchFolder folder;
  fill(folder);
  for (const char* name : {"trials.jsonl", "proposed.jsonl"}) {
    const std::string whole = read_text(folder / name);
    std::string damaged = whole;
    damaged[damaged.find('\n') + 5] = '\x01';
    write_text(folder / name, damaged);
    const std::string refusal = refusal_of(folder);
    EXPECT_NE(refusal.find(name), std::string::npos) << refusal;
    EXPECT_NE(refusal.find("line 2: damaged"), std::string::npos) << refusal;
    EXPECT_EQ(read_text(folder / name), damaged);
    write_text(folder / name, whole);
  }
}

TEST(TrialLog, RefusesATrialThatIsThereTwiceOrFromNowhere) {
  const ScratchFolder folder;
  fill(folder);
  const std::string trials = read_text(folder / "trials.jsonl");
  const std::string first = trials.substr(0, trials.find('\n') + 1);
  write_text(folder / "trials.jsonl", trials + first);
  EXPECT_NE(refusal_of(folder).find("trial 2 is there twice"), std::string::npos);
  write_text(folder / "trials.jsonl", first + trials);  // not at the end
  EXPECT_NE(refusal_of(folder).find("trial 2 is there twice"), std::string::npos);
  write_text(folder / "trials.jsonl", trials);
  const std::string proposed = read_text(folder / "proposed.jsonl");
  write_text(folder / "proposed.jsonl", proposed.substr(0, proposed.find('\n') + 1));
  EXPECT_NE(refusal_of(folder).find("trial 2 is not in proposed.jsonl"), std::string::npos);
}

TEST(TrialLog, RefusesValuesOfOtherKeys) {
  const ScratchFolder folder;
  fill(folder);
  const SearchSpace other = {{"optimizer.lr", 1e-4, 1e-1, Scale::log}};
  EXPECT_THROW(TrialLog(folder.path(), other), StateFileError);
}

TEST(TrialLog, TheEarliestOfEqualsIsTheBest) {
  const ScratchFolder folder;
  TrialLog log(folder.path(), kSpace);
  EXPECT_EQ(log.best(), nullptr);
  for (const std::int64_t number : {1, 2, 3}) log.propose(make_trial(number, 0).candidate);
  log.record(make_trial(1, std::nullopt));
  EXPECT_EQ(log.best(), nullptr);
  log.record(make_trial(3, 0.5));
  log.record(make_trial(2, 0.5));
  EXPECT_EQ(log.best()->candidate.trial, 2);
}

}  // namespace
}  // namespace spectralclip::lab
