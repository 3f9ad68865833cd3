// SPDX-License-Identifier: Apache-2.0
// The driver with a small experiment of the test's own: whatever is around a step.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "engine/drive.h"
#include "scratch_folder.h"
#include "spectralclip/error.h"

namespace spectralclip::lab {
namespace {

using nlohmann::ordered_json;

// A number that every step turns into another; throws where it is told to.
class Walk final : public Experiment {
 public:
  enum class Trouble { none, diverge, die };
  static inline Trouble trouble = Trouble::none;
  static inline std::int64_t trouble_at = 0;

  explicit Walk(const Config& config) : config_(config), value_(config.seed) {}
  [[nodiscard]] std::int64_t steps() const override { return config_.train.steps; }
  void step(std::int64_t step, Recorder& recorder) override {
    if (step == trouble_at && trouble == Trouble::diverge) throw Diverged("it was told to");
    if (step == trouble_at && trouble == Trouble::die) throw std::runtime_error("killed");
    value_ = value_ * 6364136223846793005ULL + static_cast<std::uint64_t>(step);
    recorder.metrics(step, {{"value", value_}});
  }
  [[nodiscard]] std::pair<std::string, double> headline() const override { return {"value", 1.0}; }
  void save(StateWriter& out) const override {
    Bytes bytes(8);
    for (std::size_t i = 0; i < 8; ++i) bytes[i] = static_cast<std::uint8_t>(value_ >> (8 * i));
    out.put("value", bytes);
  }
  void load(const StateReader& in) override {
    const Bytes bytes = in.bytes("value");
    value_ = 0;
    for (std::size_t i = 8; i-- > 0;) value_ = value_ << 8 | bytes[i];
  }
  [[nodiscard]] ordered_json results() override { return {{"value", value_}}; }

 private:
  Config config_;
  std::uint64_t value_;
};

struct Silent final : ProgressSink {
  void update(const Progress& progress) override { last = progress; }
  Progress last;
};

const TaskInfo kWalk{
    "walk", "", {{"value"}}, {"train", "record"}, [](const Config& config) -> std::unique_ptr<Experiment> {
      return std::make_unique<Walk>(config);
    }};

class Drive : public ::testing::Test {
 protected:
  Drive() {
    config_.task = "walk";
    config_.train.steps = 50;
    config_.record.checkpoint_every = 7;
  }
  ~Drive() override { Walk::trouble = Walk::Trouble::none; }

  RunOutcome go(const std::string& directory, bool resume = false) {
    return drive(kWalk, config_, {directory, "spectralclip run walk", resume}, sink_);
  }
  static std::vector<std::uint64_t> values_of(const std::string& directory) {
    std::ifstream file(directory + "/metrics.jsonl");
    std::vector<std::uint64_t> values;
    for (std::string line; std::getline(file, line);) {
      const auto json = ordered_json::parse(line);
      EXPECT_EQ(json["step"], values.size() + 1) << "a gap or a repeat";
      values.push_back(json["value"].get<std::uint64_t>());
    }
    return values;
  }

  Config config_;
  Silent sink_;
  ScratchFolder folder_;
};

TEST_F(Drive, FinishesAndSaysSo) {
  const RunOutcome outcome = go(folder_ / "run");
  EXPECT_EQ(outcome.status, RunStatus::finished);
  EXPECT_EQ(outcome.summary["status"], "finished");
  EXPECT_EQ(outcome.summary["settings"]["train.steps"], "50");
  EXPECT_EQ(outcome.summary["results"]["value"], values_of(folder_ / "run").back());
  EXPECT_EQ(sink_.last.step, 50);
}

TEST_F(Drive, AfterADeathAtAnyStepTheResumedRunIsTheSame) {
  (void)go(folder_ / "whole");
  const std::vector<std::uint64_t> whole = values_of(folder_ / "whole");
  ASSERT_EQ(whole.size(), 50U);
  for (std::int64_t at = 1; at <= 50; ++at) {
    const std::string directory = folder_ / ("died-" + std::to_string(at)).c_str();
    Walk::trouble = Walk::Trouble::die;
    Walk::trouble_at = at;
    EXPECT_THROW((void)go(directory), std::runtime_error);
    Walk::trouble = Walk::Trouble::none;
    const RunOutcome outcome = go(directory, true);
    EXPECT_EQ(outcome.resumed_at, (at - 1) / 7 * 7);
    EXPECT_EQ(values_of(directory), whole) << "died at " << at;
  }
}

TEST_F(Drive, DivergenceIsAResult) {
  Walk::trouble = Walk::Trouble::diverge;
  Walk::trouble_at = 11;
  const RunOutcome outcome = go(folder_ / "run");
  EXPECT_EQ(outcome.status, RunStatus::diverged);
  EXPECT_EQ(outcome.summary["diverged_at"], 11);
  EXPECT_EQ(values_of(folder_ / "run").size(), 10U);
  Walk::trouble = Walk::Trouble::none;
  EXPECT_TRUE(go(folder_ / "run", true).was_done) << "a diverged run was begun again";
}

TEST_F(Drive, RefusesAUsedDirectoryAndAnotherConfiguration) {
  (void)go(folder_ / "run");
  try {
    (void)go(folder_ / "run");
    FAIL() << "it ran over a finished run";
  } catch (const InvalidArgument& error) {
    EXPECT_NE(std::string(error.what()).find("finished, 50 of 50 steps"), std::string::npos) << error.what();
  }
  config_.train.batch = 5;
  try {
    (void)go(folder_ / "run", true);
    FAIL() << "it resumed with another configuration";
  } catch (const InvalidArgument& error) {
    EXPECT_NE(std::string(error.what()).find("it has batch = 32, now batch = 5"), std::string::npos) << error.what();
  }
  EXPECT_EQ(values_of(folder_ / "run").size(), 50U) << "earlier results were lost";
}

TEST_F(Drive, AFinishedRunIsNotRepeated) {
  (void)go(folder_ / "run");
  const RunOutcome again = go(folder_ / "run", true);
  EXPECT_TRUE(again.was_done);
  EXPECT_EQ(again.status, RunStatus::finished);
}

TEST_F(Drive, ATruncatedCheckpointIsRefusedAndNothingIsLost) {
  Walk::trouble = Walk::Trouble::die;
  Walk::trouble_at = 20;
  EXPECT_THROW((void)go(folder_ / "run"), std::runtime_error);
  Walk::trouble = Walk::Trouble::none;
  const std::size_t lines = values_of(folder_ / "run").size();
  std::filesystem::resize_file(folder_ / "run/checkpoint.bin", 40);
  EXPECT_THROW((void)go(folder_ / "run", true), StateFileError);
  EXPECT_EQ(values_of(folder_ / "run").size(), lines);
}

}  // namespace
}  // namespace spectralclip::lab
