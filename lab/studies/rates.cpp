// SPDX-License-Identifier: Apache-2.0
#include "studies/rates.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "clipper/byte_stream.h"
#include "constants.h"
#include "require.h"
#include "studies/rates_cell.h"

namespace spectralclip::lab {
namespace {

constexpr const char* kSection = "rates";
constexpr std::int64_t kCellsPerPlace = 6;  // two theorems, three methods

// `points` values of K, evenly in log K.
std::vector<std::int64_t> make_grid(const RatesConfig& config, std::int64_t last) {
  SPECTRALCLIP_REQUIRE(config.points >= 2, "rates.points = ", config.points, " is below 2");
  SPECTRALCLIP_REQUIRE(config.first_steps >= 1 && config.first_steps < last, "rates.first_steps = ", config.first_steps,
                       " is not in [1, train.steps = ", last, ")");
  std::vector<std::int64_t> grid;
  const double ratio = static_cast<double>(last) / static_cast<double>(config.first_steps);
  for (std::int64_t i = 0; i < config.points; ++i) {
    const double share = static_cast<double>(i) / static_cast<double>(config.points - 1);
    grid.push_back(std::llround(static_cast<double>(config.first_steps) * std::pow(ratio, share)));
  }
  grid.erase(std::unique(grid.begin(), grid.end()), grid.end());
  return grid;
}

void validate(const RatesConfig& config) {
  SPECTRALCLIP_REQUIRE(config.alpha > 1 && config.alpha <= 2, "rates.alpha = ", config.alpha, " is not in (1, 2]");
  SPECTRALCLIP_REQUIRE(config.repeats >= 2, "rates.repeats = ", config.repeats, " is below 2");
  SPECTRALCLIP_REQUIRE(config.tau >= 0, "rates.tau = ", config.tau, " is below 0");
  SPECTRALCLIP_REQUIRE(config.bias_points >= 1, "rates.bias_points = ", config.bias_points, " is below 1");
  validate(noise_of(config));
}

void put_interval(ByteWriter& out, const Interval& interval) {
  for (const double value : {interval.value, interval.low, interval.high}) out.put(value);
}
Interval read_interval(ByteReader& in, const char* field) {
  const double value = in.float64(field), low = in.float64(field);
  return {value, low, in.float64(field)};
}

class Rates final : public Experiment {
 public:
  explicit Rates(const Config& config);

  [[nodiscard]] std::int64_t steps() const override { return static_cast<std::int64_t>(grid_.size()) * kCellsPerPlace; }
  void step(std::int64_t step, Recorder& recorder) override;
  [[nodiscard]] std::pair<std::string, double> headline() const override;
  void save(StateWriter& state) const override;
  void load(const StateReader& state) override;
  [[nodiscard]] nlohmann::ordered_json results() override;

 private:
  [[nodiscard]] CellPlan plan(std::int64_t step) const;
  // Of the cells done so far with this method and theorem.
  template <class Pick>
  [[nodiscard]] Interval exponent(ClipMethod method, int theorem, Pick&& pick) const;
  template <class Pick>
  [[nodiscard]] double largest_ratio(ClipMethod method, int theorem, Pick&& pick) const;
  [[nodiscard]] double theory(ClipMethod method, int theorem) const;
  void add_results(nlohmann::ordered_json& values, ClipMethod method, int theorem) const;

  Config config_;
  RatesProblem problem_;
  std::vector<std::int64_t> grid_;
  ThreadPool pool_;
  std::vector<CellResult> cells_;  // one per step done
};

Rates::Rates(const Config& config)
    : config_(config),
      problem_(config.rates, config.seed),
      grid_(make_grid(config.rates, config.train.steps)),
      pool_(static_cast<int>(std::max<std::int64_t>(1, config.threads))),
      cells_() {
  validate(config.rates);
  (void)plan(1);  // the moment of the noise must exist
}

// Step 1, 2, …: K by K, so that the cheap ones come first.
CellPlan Rates::plan(std::int64_t step) const {
  const std::int64_t place = (step - 1) / kCellsPerPlace, within = (step - 1) % kCellsPerPlace;
  return make_plan(problem_, config_.rates, kClipMethods[static_cast<std::size_t>(within % 3)], within < 3 ? 2 : 1,
                   grid_[static_cast<std::size_t>(place)], place);
}

void Rates::step(std::int64_t step, Recorder& recorder) {
  const CellPlan cell = plan(step);
  const CellResult result = run_cell(problem_, config_.rates, cell, config_.seed, pool_);
  cells_.resize(static_cast<std::size_t>(step - 1));
  cells_.push_back(result);
  recorder.metrics(step, {{"method", to_string(cell.method)},
                          {"theorem", cell.theorem},
                          {"K", cell.K},
                          {"measured", result.measured.value},
                          {"low", result.measured.low},
                          {"high", result.measured.high},
                          {"least", result.least},
                          {"average", result.average.value},
                          {"average_low", result.average.low},
                          {"average_high", result.average.high},
                          {"bound", result.bound},
                          {"delta", cell.theorem == 1 ? result.mean_delta : kNaN},
                          {"eta", cell.schedule.eta},
                          {"tau", cell.schedule.tau},
                          {"diverged", result.diverged}});
}

template <class Pick>
Interval Rates::exponent(ClipMethod method, int theorem, Pick&& pick) const {
  std::vector<double> K, values;
  for (std::size_t i = 0; i < cells_.size(); ++i) {
    const CellPlan cell = plan(static_cast<std::int64_t>(i) + 1);
    if (cell.method != method || cell.theorem != theorem) continue;
    K.push_back(static_cast<double>(cell.K));
    values.push_back(pick(cells_[i]));
  }
  return fit_exponent(K, values);
}

template <class Pick>
double Rates::largest_ratio(ClipMethod method, int theorem, Pick&& pick) const {
  double largest = kNaN;
  for (std::size_t i = 0; i < cells_.size(); ++i) {
    const CellPlan cell = plan(static_cast<std::int64_t>(i) + 1);
    if (cell.method != method || cell.theorem != theorem || !std::isfinite(cells_[i].bound)) continue;
    largest = std::fmax(largest, pick(cells_[i]) / cells_[i].bound);
  }
  return largest;
}

// Without clipping the theorems promise something for alpha = 2 only.
double Rates::theory(ClipMethod method, int theorem) const {
  if (method == ClipMethod::none && config_.rates.alpha < 2) return kNaN;
  return theorem == 1 ? kTheorem1Exponent : theorem2_exponent(config_.rates.alpha);
}

void Rates::add_results(nlohmann::ordered_json& values, ClipMethod method, int theorem) const {
  const std::string prefix = std::string(to_string(method)) + (theorem == 1 ? "_theorem1_" : "_");
  const auto measured = [](const CellResult& cell) { return cell.measured.value; };
  const auto least = [](const CellResult& cell) { return cell.least; };
  const auto average = [](const CellResult& cell) { return cell.average.value; };
  const Interval fit = exponent(method, theorem, measured), average_fit = exponent(method, theorem, average);
  values[prefix + "exponent"] = fit.value;
  values[prefix + "exponent_low"] = fit.low;
  values[prefix + "exponent_high"] = fit.high;
  values[prefix + "least_exponent"] = exponent(method, theorem, least).value;
  values[prefix + "average_exponent"] = average_fit.value;
  values[prefix + "average_exponent_low"] = average_fit.low;
  values[prefix + "average_exponent_high"] = average_fit.high;
  values[prefix + "theory"] = theory(method, theorem);
  values[prefix + "ratio"] = largest_ratio(method, theorem, measured);
  values[prefix + "average_ratio"] = largest_ratio(method, theorem, average);
}

nlohmann::ordered_json Rates::results() {
  nlohmann::ordered_json values;
  for (const int theorem : {2, 1}) {
    for (const ClipMethod method : kClipMethods) add_results(values, method, theorem);
  }
  std::int64_t diverged = 0;
  for (const CellResult& cell : cells_) diverged += cell.diverged;
  values["diverged_runs"] = diverged;
  return values;
}

std::pair<std::string, double> Rates::headline() const {
  return {"exponent",
          exponent(ClipMethod::spectral, 2, [](const CellResult& cell) { return cell.measured.value; }).value};
}

void Rates::save(StateWriter& state) const {
  ByteWriter out;
  out.put(static_cast<std::uint64_t>(cells_.size()));
  for (const CellResult& cell : cells_) {
    put_interval(out, cell.measured);
    out.put(cell.least);
    put_interval(out, cell.average);
    out.put(cell.mean_delta);
    out.put(cell.bound);
    out.put(cell.diverged);
  }
  state.put(kSection, out.bytes());
}

void Rates::load(const StateReader& state) {
  const Bytes bytes = state.bytes(kSection);
  ByteReader in(bytes);
  constexpr std::size_t kCellBytes = 10 * sizeof(double);
  std::vector<CellResult> cells(in.count(kCellBytes, "cells"));
  for (CellResult& cell : cells) {
    cell.measured = read_interval(in, "measured");
    cell.least = in.float64("least");
    cell.average = read_interval(in, "average");
    cell.mean_delta = in.float64("delta");
    cell.bound = in.float64("bound");
    cell.diverged = in.integer<std::int64_t>("diverged");
  }
  if (in.remaining() != 0 || static_cast<std::int64_t>(cells.size()) > steps()) {
    throw StateFileError("state of the study of rates has " + std::to_string(cells.size()) + " cells, this one has " +
                         std::to_string(steps()));
  }
  cells_ = std::move(cells);
}

}  // namespace

std::unique_ptr<Experiment> make_rates(const Config& config) { return std::make_unique<Rates>(config); }

}  // namespace spectralclip::lab
