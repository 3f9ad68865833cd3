// SPDX-License-Identifier: Apache-2.0
// A clipper over ranks, played by threads: what it leaves and reports is what one process would, for any cut of rows or
// columns; ranks decide alike whatever one of them holds; and who disagrees is told before anything is written.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <mutex>
#include <string>
#include <vector>

#include "clipper/sharded_model.h"
#include "spectralclip/error.h"
#include "support/thread_ranks.h"

namespace spectralclip::testing {
namespace {

const std::vector<Cuts> kCuts = {
    {}, {0.3}, {0.1, 0.15}, {0.0, 0.5, 0.5, 1.0}};  // 1, 2, 3, 5 ranks; empty ones in the last

// Searched and dense layers of all types, tall and wide, a convolution, a batch, vectors, skipped ones; packed.
ToyModel model_by_rows() {
  ToyModel model;
  model.add("attn.weight", {72, 61});
  model.add("mlp.weight", {56, 90});
  model.add("half.weight", {64, 56}, ScalarType::bfloat16);
  model.add("float16.weight", {55, 80}, ScalarType::float16);
  model.add("double.weight", {70, 52}, ScalarType::float64);
  model.add("wte.weight", {50, 8});
  model.add("small.weight", {20, 12});
  model.add("conv.weight", {8, 3, 3, 3});
  model.add("experts", {3, 10, 14}, ScalarType::float32, 2);
  model.add("norm.bias", {37}, ScalarType::float32, 0);
  model.add("one", {1, 1});
  return model;
}
std::vector<int> axes(int of_experts) { return {0, 0, 0, 0, 0, 0, 0, 0, of_experts, 0, -1}; }

// Split by columns, a matrix is worked on as the transpose of one that is split by rows: that is what it is compared
// with.
constexpr std::size_t kMatrices = 7;
ToyModel matrices_of(const ToyModel& model, bool transposed) {
  ToyModel result;
  for (std::size_t p = 0; p < kMatrices; ++p) {
    const ToyModel::Tensor& from = model.tensors[p];
    const std::int64_t m = from.parameter.shape[0], n = from.parameter.shape[1], unit = size_of(from.type);
    result.add(from.parameter.name, transposed ? std::vector{n, m} : std::vector{m, n}, from.type);
    std::vector<std::uint8_t>& to = result.tensors.back().bytes;
    for (std::int64_t i = 0; i < m; ++i)
      for (std::int64_t j = 0; j < n; ++j)
        std::copy_n(from.bytes.data() + (i * n + j) * unit, unit,
                    to.data() + (transposed ? j * m + i : i * n + j) * unit);
  }
  return result;
}

struct Case {
  const char* name;
  bool by_columns;
  int expert_axis;
  ClipperOptions options;

  [[nodiscard]] std::vector<int> split() const {
    return by_columns ? std::vector<int>(kMatrices, 1) : axes(expert_axis);
  }
  [[nodiscard]] ToyModel whole(int step) const {
    ToyModel model = model_by_rows();
    model.fill(step);
    return by_columns ? matrices_of(model, false) : model;
  }
  [[nodiscard]] ToyModel alone(int step) const {  // what one process gets to work on
    ToyModel model = model_by_rows();
    model.fill(step);
    return by_columns ? matrices_of(model, true) : model;
  }
};

ClipperOptions options_of(Method method, bool constant = false) {
  ClipperOptions options = mixed_options();
  options.clip.method = method;
  if (constant)
    options.threshold = {.kind = ThresholdKind::constant, .tau = 3.0};  // above the noise, below what stands out
  return options;
}

// Sums in another order: relative to the norm, in roundings of the storage type, and of reports.
constexpr double kRoundings = 512;  // 85 measured
constexpr double kNear = 64 * 0x1p-23;

double entry(const ToyModel::Tensor& tensor, std::int64_t i) {
  const std::uint8_t* const at = tensor.bytes.data() + i * size_of(tensor.type);
  if (tensor.type == ScalarType::float64) return *reinterpret_cast<const double*>(at);
  if (tensor.type == ScalarType::float32) return *reinterpret_cast<const float*>(at);
  if (tensor.type == ScalarType::bfloat16) return kernels::to_float(*reinterpret_cast<const BFloat16*>(at));
  return kernels::to_float(*reinterpret_cast<const Float16*>(at));
}
// Of float64, too, vectors are kept from step to step in float32.
double epsilon(ScalarType type) {
  return size_of(type) >= 4 ? 0x1p-23 : type == ScalarType::bfloat16 ? 0x1p-7 : 0x1p-10;
}

// ||a - b||_F / (epsilon ||a||_F)
double distance(const ToyModel::Tensor& a, const ToyModel::Tensor& b) {
  double size = 0, error = 0;
  const auto count = static_cast<std::int64_t>(a.bytes.size()) / size_of(a.type);
  for (std::int64_t i = 0; i < count; ++i) {
    size += entry(a, i) * entry(a, i);
    error += (entry(a, i) - entry(b, i)) * (entry(a, i) - entry(b, i));
  }
  return size > 0 ? std::sqrt(error / size) / epsilon(a.type) : std::sqrt(error);
}

// The whole model on one process beside it on ranks, `steps` steps; returns the worst distance of gradients.
double compare(const Case& c, const Cuts& cuts, int steps) {
  const int ranks = static_cast<int>(cuts.size()) + 1;
  std::vector<ToyModel> expected, gathered;
  std::vector<std::vector<LayerReport>> reports;
  std::vector<StepReport> totals;
  Clipper alone(c.alone(0).parameters(), c.options);
  for (int step = 0; step < steps; ++step) {
    ToyModel model = c.alone(step);
    totals.push_back(alone.step(model.gradients(), serial_executor()));
    reports.emplace_back(totals.back().layers.begin(), totals.back().layers.end());
    expected.push_back(model);
    if (c.by_columns) {  // transposed back
      ToyModel back = c.whole(step);
      for (std::size_t p = 0; p < kMatrices; ++p) {
        const auto& shape = model.tensors[p].parameter.shape;
        const std::int64_t unit = size_of(model.tensors[p].type);
        for (std::int64_t i = 0; i < shape[0]; ++i)
          for (std::int64_t j = 0; j < shape[1]; ++j)
            std::copy_n(model.tensors[p].bytes.data() + (i * shape[1] + j) * unit, unit,
                        back.tensors[p].bytes.data() + (j * shape[0] + i) * unit);
      }
      expected.back() = back;
    }
    gathered.push_back(c.whole(step));
  }

  std::vector<std::vector<std::uint8_t>> states(static_cast<std::size_t>(ranks));
  std::mutex mutex;
  ThreadRanks team(ranks);
  const std::vector<std::string> errors = team.run([&](ThreadRanks::Rank& rank) {
    ToyModel source = c.whole(0);
    ShardedModel mine(source, c.split(), cuts, rank.rank());
    Clipper clipper(mine.parameters(), c.options);
    for (int step = 0; step < steps; ++step) {
      source = c.whole(step);
      mine.take_from(source);
      const std::vector<Gradient> gradients = mine.gradients(source);
      const StepReport report = clipper.step(gradients, rank, serial_executor());
      const auto at = static_cast<std::size_t>(step);
      const std::lock_guard lock(mutex);
      mine.give_to(gathered[at]);
      EXPECT_EQ(report.layers_clipped, totals[at].layers_clipped) << c.name << ", step " << step;
      for (std::size_t i = 0; i < reports[at].size(); ++i) {
        const ClipReport& one = reports[at][i].clip;
        const ClipReport& found = report.layers[i].clip;
        SCOPED_TRACE(::testing::Message() << c.name << ", " << ranks << " ranks, rank " << rank.rank() << ", step "
                                          << step << ", " << report.layers[i].name);
        EXPECT_EQ(report.layers[i].name, reports[at][i].name);
        EXPECT_EQ(report.layers[i].steps, reports[at][i].steps);
        EXPECT_EQ(found.status, one.status);
        EXPECT_EQ(found.method, one.method);
        EXPECT_EQ(found.clipped, one.clipped);
        const auto near = [&](double a, double b) { return a == b || std::abs(a - b) <= kNear * std::abs(b); };
        EXPECT_TRUE(near(found.tau, one.tau)) << found.tau << " beside " << one.tau;
        EXPECT_TRUE(near(found.sigma_max, one.sigma_max)) << found.sigma_max << " beside " << one.sigma_max;
        EXPECT_TRUE(near(found.norm_before, one.norm_before)) << found.norm_before << " beside " << one.norm_before;
        EXPECT_TRUE(near(found.norm_after, one.norm_after)) << found.norm_after << " beside " << one.norm_after;
      }
    }
    const std::lock_guard lock(mutex);
    states[static_cast<std::size_t>(rank.rank())] = clipper.serialize();
  });
  for (const std::string& error : errors) EXPECT_EQ(error, "") << c.name;
  const bool rank_own_states = !c.by_columns && c.expert_axis == 0;  // experts that lie on one rank each
  for (const auto& state : states) {
    EXPECT_TRUE(rank_own_states || state == states[0]) << c.name;
  }
  double worst = 0;
  for (std::size_t step = 0; step < expected.size(); ++step) {
    for (std::size_t p = 0; p < expected[step].tensors.size(); ++p) {
      const double off = distance(expected[step].tensors[p], gathered[step].tensors[p]);
      worst = std::max(worst, off);
      EXPECT_LE(off, kRoundings) << c.name << ", " << ranks << " ranks, step " << step << ", "
                                 << expected[step].tensors[p].parameter.name;
    }
  }
  return worst;
}

class ShardedStepCuts : public ::testing::TestWithParam<int> {};

TEST_P(ShardedStepCuts, LeavesAndReportsWhatOneProcessDoes) {
  const Cuts& cuts = kCuts[static_cast<std::size_t>(GetParam())];
  const std::vector<Case> cases = {
      {"tracked by rows", false, 1, options_of(Method::tracked)},
      {"auto by rows, constant", false, 0, options_of(Method::automatic, true)},
      {"sketched by rows", false, 1, options_of(Method::sketched)},
      {"tracked by columns", true, 0, options_of(Method::tracked)},
      {"auto by columns, constant", true, 0, options_of(Method::automatic, true)},
      {"sketched by columns", true, 0, options_of(Method::sketched)},
  };
  double worst = 0;
  for (const Case& c : cases) worst = std::max(worst, compare(c, cuts, 7));
  std::cout << cuts.size() + 1 << " ranks: worst distance " << worst << " roundings of the norm\n";
}
INSTANTIATE_TEST_SUITE_P(Cuts, ShardedStepCuts, ::testing::Range(0, 4));

// ---- what one rank has or lacks

// Two weights, a vector; rows split at 0.4 over two ranks. body(step number, clipper, rank, shards) sees the local
// parts.
struct Team {
  ToyModel model;
  Cuts cuts = {0.4};
  ClipperOptions options;
  std::vector<int> split = {0, 0, 0};

  Team() {
    model.add("wide.weight", {40, 96});
    model.add("tall.weight", {160, 80});
    model.add("bias", {30}, ScalarType::float32, 0);
    model.fill(2);
  }
  using Change = std::function<void(ThreadRanks::Rank&, ShardedModel&, std::vector<Gradient>&)>;
  std::vector<std::vector<ClipReport>> reports;
  std::vector<StepReport> totals;
  std::vector<ShardedModel> after;

  // One step; errors per rank.
  std::vector<std::string> run(const Change& change = {}) {
    const int ranks = static_cast<int>(cuts.size()) + 1;
    reports.assign(static_cast<std::size_t>(ranks), {});
    totals.assign(static_cast<std::size_t>(ranks), {});
    after.clear();
    for (int r = 0; r < ranks; ++r) after.emplace_back(model, split, cuts, r);
    ThreadRanks team(ranks);
    return team.run([&](ThreadRanks::Rank& rank) {
      const auto r = static_cast<std::size_t>(rank.rank());
      ShardedModel& mine = after[r];
      mine.take_from(model);
      Clipper clipper(mine.parameters(), options);
      std::vector<Gradient> gradients = mine.gradients(model);
      if (change) change(rank, mine, gradients);
      totals[r] = clipper.step(gradients, rank, serial_executor());
      for (const LayerReport& layer : totals[r].layers) reports[r].push_back(layer.clip);
      totals[r].layers = {};
    });
  }
  [[nodiscard]] bool untouched(std::size_t rank, std::size_t parameter) const {
    ShardedModel fresh(model, split, cuts, static_cast<int>(rank));
    fresh.take_from(model);
    return fresh.shards[parameter].bytes == after[rank].shards[parameter].bytes;
  }
};

float& number(ShardedModel& mine, std::size_t parameter, std::size_t at) {
  return reinterpret_cast<float*>(mine.shards[parameter].bytes.data())[at];
}

ThresholdOptions constant(double tau) { return {.kind = ThresholdKind::constant, .tau = tau}; }

TEST(ShardedStep, ANaNOnOneRankIsSeenByAllAndStopsThatLayerOnly) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    Team team;
    team.options.threshold = constant(3.0);
    const auto errors = team.run([&](ThreadRanks::Rank& rank, ShardedModel& mine, std::vector<Gradient>&) {
      if (rank.rank() == 1) number(mine, 0, 17) = bad;
    });
    for (std::size_t r = 0; r < 2; ++r) {
      EXPECT_EQ(errors[r], "");
      EXPECT_EQ(team.reports[r][0].status, ClipStatus::not_finite);
      EXPECT_EQ(team.reports[r][1].status, ClipStatus::ok);
      EXPECT_GT(team.reports[r][1].clipped, 0);
      EXPECT_EQ(team.totals[r].layers_not_finite, 1);
      EXPECT_FALSE(team.untouched(r, 1));
    }
    EXPECT_TRUE(team.untouched(0, 0));
  }
}

TEST(ShardedStep, LeaveAllTouchesNothingOnAnyRank) {
  for (const std::size_t parameter : {std::size_t{0}, std::size_t{2}}) {
    Team team;
    team.options.threshold = constant(3.0);
    team.options.on_nonfinite = OnNonFinite::leave_all;
    const auto errors = team.run([&](ThreadRanks::Rank& rank, ShardedModel& mine, std::vector<Gradient>&) {
      if (rank.rank() == 0) number(mine, parameter, 3) = std::numeric_limits<float>::quiet_NaN();
    });
    for (std::size_t r = 0; r < 2; ++r) {
      EXPECT_EQ(errors[r], "");
      EXPECT_TRUE(team.totals[r].left_all);
      for (const std::size_t p : {std::size_t{0}, std::size_t{1}, std::size_t{2}})
        EXPECT_TRUE(team.untouched(r, p) || (r == 0 && p == parameter)) << r << ", " << p;
    }
  }
}

// Squares of float32 overflow or vanish: the range comes from all ranks, and the clip is what it is in range.
TEST(ShardedStep, EntriesOutOfRangeAreScaled) {
  ClipStatus in_range[2][2] = {};
  for (const double scale : {1.0, 1e-30, 1e25}) {
    for (const bool by_columns : {false, true}) {
      Team team;
      team.split = {by_columns ? 1 : 0, by_columns ? 1 : 0, 0};
      team.options.threshold = constant(3.0 * scale);
      for (std::size_t p = 0; p < 2; ++p) {
        auto* x = reinterpret_cast<float*>(team.model.tensors[p].bytes.data());
        for (std::size_t i = 0; i < team.model.tensors[p].bytes.size() / 4; ++i)
          x[i] = static_cast<float>(x[i] * scale);
      }
      ToyModel alone = team.model;
      Clipper reference(alone.parameters(), team.options);
      const StepReport expected = reference.step(alone.gradients(), serial_executor());
      const auto errors = team.run();
      ToyModel gathered = team.model;
      for (std::size_t r = 0; r < 2; ++r) {
        EXPECT_EQ(errors[r], "");
        team.after[r].give_to(gathered);
        for (std::size_t i = 0; i < 2; ++i) {
          if (scale == 1) in_range[by_columns ? 1 : 0][i] = team.reports[r][i].status;
          EXPECT_EQ(team.reports[r][i].status, in_range[by_columns ? 1 : 0][i]) << scale << ", " << i;
          EXPECT_NE(team.reports[r][i].status, ClipStatus::out_of_range);
          EXPECT_EQ(team.reports[r][i].clipped, expected.layers[i].clip.clipped);
          EXPECT_NEAR(team.reports[r][i].sigma_max, expected.layers[i].clip.sigma_max,
                      1e-2 * expected.layers[i].clip.sigma_max);
        }
      }
      for (std::size_t p = 0; p < 2; ++p) {  // the contract of both: margin and tolerance of tau and what was removed
        double error = 0, removed = 0;
        for (std::int64_t i = 0; i < static_cast<std::int64_t>(alone.tensors[p].bytes.size()) / 4; ++i) {
          const double one = entry(alone.tensors[p], i), here = entry(gathered.tensors[p], i),
                       before = entry(team.model.tensors[p], i);
          error += (one - here) / scale * ((one - here) / scale);
          removed += (one - before) / scale * ((one - before) / scale);
        }
        EXPECT_LE(std::sqrt(error), 6 * (1e-4 * std::sqrt(removed) + 1e-3 * 3.0)) << scale << ", " << p;
        EXPECT_GT(removed, 1);
      }
    }
  }
}

TEST(ShardedStep, TheFirstStepOfThePaperErasesOnAllRanks) {
  Team team;
  team.cuts = {0.0, 0.5};
  team.options.threshold.first_step = FirstStep::zero;
  const auto errors = team.run();
  for (std::size_t r = 0; r < 3; ++r) {
    EXPECT_EQ(errors[r], "");
    for (const LocalShard& shard : team.after[r].shards)
      for (std::size_t i = 0; i < shard.bytes.size() / sizeof(float); ++i)
        ASSERT_EQ(reinterpret_cast<const float*>(shard.bytes.data())[i], 0.0F);
    EXPECT_EQ(team.reports[r][1].clipped, 80);
    EXPECT_GT(team.reports[r][1].sigma_max, 1);
  }
}

TEST(ShardedStep, RanksThatDisagreeAreToldBeforeAnythingIsWritten) {
  using Change = Team::Change;
  const std::vector<std::pair<const char*, Change>> cases = {
      {"some have none for tall.weight",
       [](ThreadRanks::Rank& rank, ShardedModel&, std::vector<Gradient>& g) {
         if (rank.rank() == 1) g[1].data = nullptr;
       }},
      {"types of gradients",
       [](ThreadRanks::Rank& rank, ShardedModel&, std::vector<Gradient>& g) {
         if (rank.rank() == 1) g[2].type = ScalarType::bfloat16;
       }},
      {"refused on 1 of 2",
       [](ThreadRanks::Rank& rank, ShardedModel&, std::vector<Gradient>& g) {
         if (rank.rank() == 1) g[0].row_stride = 1;
       }},
      {"refused on 1 of 2",
       [](ThreadRanks::Rank& rank, ShardedModel&, std::vector<Gradient>& g) {
         if (rank.rank() == 1) g.pop_back();
       }},
  };
  for (const auto& [text, change] : cases) {
    Team team;
    team.options.threshold = constant(3.0);
    const auto errors = team.run(change);
    EXPECT_NE(errors[0].find(text), std::string::npos) << errors[0];
    EXPECT_NE(errors[1], "");
    for (std::size_t r = 0; r < 2; ++r)
      for (std::size_t p = 0; p < 3; ++p) EXPECT_TRUE(team.untouched(r, p));
  }
}

// body(rank, parameters) builds one rank's clipper and steps it once.
std::vector<std::string> step_with(const std::function<void(int, std::vector<Parameter>&, ClipperOptions&)>& change) {
  Team team;
  ThreadRanks ranks(2);
  return ranks.run([&](ThreadRanks::Rank& rank) {
    ShardedModel mine(team.model, team.split, team.cuts, rank.rank());
    mine.take_from(team.model);
    std::vector<Parameter> parameters = mine.parameters();
    ClipperOptions options;
    change(rank.rank(), parameters, options);
    Clipper clipper(parameters, options);
    (void)clipper.step(mine.gradients(team.model), rank, serial_executor());
  });
}

TEST(ShardedStep, OtherLayersOptionsOrSharesAreNamed) {
  const auto layers = step_with([](int rank, std::vector<Parameter>& p, ClipperOptions&) {
    if (rank == 1) p[0].name = "other.weight";
  });
  const auto options = step_with([](int rank, std::vector<Parameter>&, ClipperOptions& o) {
    if (rank == 1) o.clip.tolerance = 1e-3;
  });
  for (const auto& errors : {layers, options})
    for (const std::string& error : errors)
      EXPECT_NE(error.find("disagree about the layers"), std::string::npos) << error;
  const auto shares = step_with([](int rank, std::vector<Parameter>& p, ClipperOptions&) {
    if (rank == 1) p[1].shard.extent -= 1;
  });
  for (const std::string& error : shares)
    EXPECT_NE(error.find("\"tall.weight\": the ranks hold 159 of its 160 rows"), std::string::npos) << error;
}

TEST(ShardedStep, StatesThatDifferAreNoticed) {
  Team team;
  ThreadRanks ranks(2);
  const auto errors = ranks.run([&](ThreadRanks::Rank& rank) {
    ShardedModel mine(team.model, team.split, team.cuts, rank.rank());
    mine.take_from(team.model);
    Clipper clipper(mine.parameters(), {});
    const std::vector<std::uint8_t> fresh = clipper.serialize();
    (void)clipper.step(mine.gradients(team.model), rank, serial_executor());
    if (rank.rank() == 0) clipper.deserialize(fresh);
    (void)clipper.step(mine.gradients(team.model), rank, serial_executor());
  });
  for (const std::string& error : errors)
    EXPECT_NE(error.find("disagree about the clipper's state"), std::string::npos) << error;
}

// Whenever a rank dies before the first write, the others end with an error and their gradients as they were.
TEST(ShardedStep, ARankThatDiesLeavesNothingHalfClipped) {
  std::int64_t calls = 0;
  for (std::int64_t death = 1; death <= 6; ++death) {
    Team team;
    team.options.threshold = constant(3.0);
    const auto errors = team.run([&](ThreadRanks::Rank& rank, ShardedModel&, std::vector<Gradient>&) {
      if (rank.rank() == 0) rank.poison = &death;
    });
    if (errors[0].empty()) break;
    ++calls;
    EXPECT_NE(errors[1], "") << "death in call " << death;
    std::size_t written = 0;
    for (std::size_t p = 0; p < 3; ++p) written += team.untouched(1, p) ? 0 : 1;
    EXPECT_TRUE(written == 0 || written == 3) << written << " of 3 layers after a death in call " << death;
  }
  EXPECT_GE(calls, 3);
}

TEST(ShardedStep, WhatNeedsTheWholeMatrixIsRefusedWhenTheClipperIsMade) {
  const auto made = [](std::vector<std::int64_t> shape, int axis, Method method) {
    Parameter parameter{"w", shape};
    parameter.shard = {.axis = axis, .extent = 5};
    ClipperOptions options;
    options.clip.method = method;
    Clipper clipper({parameter}, options);
  };
  for (const Method method : {Method::exact, Method::newton_schulz}) {
    EXPECT_THROW(made({20, 10}, 0, method), InvalidArgument);
    EXPECT_THROW(made({20, 10}, 1, method), InvalidArgument);
  }
  EXPECT_NO_THROW(made({20, 10}, 0, Method::gram));
  EXPECT_THROW(made({20, 10}, 1, Method::gram), InvalidArgument);
  EXPECT_THROW(made({20, 10}, 2, Method::automatic), InvalidArgument);
  EXPECT_THROW(made({4, 10}, 0, Method::automatic), InvalidArgument) << "5 of 4 rows";
  for (const Method method : {Method::automatic, Method::tracked, Method::sketched})
    EXPECT_NO_THROW(made({20, 10}, 1, method));
}

TEST(ShardedStep, AStepWithoutAReductionIsRefused) {
  Team team;
  ShardedModel mine(team.model, team.split, team.cuts, 0);
  mine.take_from(team.model);
  Clipper clipper(mine.parameters(), {});
  EXPECT_THROW((void)clipper.step(mine.gradients(team.model), serial_executor()), InvalidArgument);
  EXPECT_THROW(clipper.step_parameter(1, mine.gradients(team.model)[1], serial_executor()), InvalidArgument);
}

// go_exact without a gram to end in: a wide matrix split by rows, half of its values above tau.
TEST(ShardedStep, GoExactLeavesNothingAboveTau) {
  Team team;
  team.options.threshold = constant(0.8);
  team.options.clip.exhausted = Exhausted::go_exact;
  team.options.clip.max_columns = 16;
  ToyModel wide;
  wide.add("wide.weight", {150, 400});
  wide.fill(2);
  team.model = wide;
  team.split = {0};
  const auto errors = team.run();
  for (std::size_t r = 0; r < 2; ++r) {
    EXPECT_EQ(errors[r], "");
    EXPECT_EQ(team.reports[r][0].status, ClipStatus::ok);
    EXPECT_GT(team.reports[r][0].clipped, 70);
    EXPECT_LE(team.reports[r][0].sigma_bound, 0.8 * 1.01);
  }
}

}  // namespace
}  // namespace spectralclip::testing
