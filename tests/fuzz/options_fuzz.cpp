// SPDX-License-Identifier: Apache-2.0
// libFuzzer target: any bytes as options, a history and a parameter. validate accepts or throws InvalidArgument; what
// it accepts must run and keep its invariants. A violated invariant traps, which libFuzzer reports as a crash.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "spectralclip/error.h"
#include "spectralclip/options.h"
#include "spectralclip/rules.h"
#include "spectralclip/threshold.h"
#include "threshold/state_check.h"

namespace {

using namespace spectralclip;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

void require(bool invariant) {
  if (!invariant) std::abort();
}

// Reads values off the front of the input; zeros once it is used up.
class Bytes {
 public:
  explicit Bytes(std::span<const std::uint8_t> bytes) : rest_(bytes) {}
  [[nodiscard]] bool empty() const { return rest_.empty(); }

  template <class T>
  T raw() {
    T value{};
    const std::size_t count = std::min(sizeof value, rest_.size());
    if (count > 0) std::memcpy(&value, rest_.data(), count);
    rest_ = rest_.subspan(count);
    return value;
  }
  // Half of the time a number near the edges that matter, else any bit pattern.
  double real() {
    constexpr double kEdges[] = {0,         -0.0,       0.5,
                                 1,         0.9,        2,
                                 -1,        5e-324,     1.7976931348623157e308,
                                 kInfinity, -kInfinity, std::numeric_limits<double>::quiet_NaN()};
    const auto choice = raw<std::uint8_t>();
    return choice < 128 ? kEdges[choice % std::size(kEdges)] : std::bit_cast<double>(raw<std::uint64_t>());
  }
  std::int64_t integer() {
    const auto choice = raw<std::uint8_t>();
    return choice < 128 ? choice % 24 - 2 : raw<std::int64_t>();
  }
  template <class Enum>
  Enum enumerator() {
    return static_cast<Enum>(raw<std::uint8_t>() % 8);
  }
  bool flag() { return raw<std::uint8_t>() % 2 == 1; }
  std::string text() {
    std::string text(raw<std::uint8_t>() % 16, '\0');
    for (char& c : text) c = raw<char>();
    return text;
  }

 private:
  std::span<const std::uint8_t> rest_;
};

template <class Options>
bool accepted(const Options& options) {
  try {
    validate(options);
    return true;
  } catch (const InvalidArgument& refusal) {
    require(std::strlen(refusal.what()) > 0);
    return false;
  }
}

ClipOptions decode_clip(Bytes& bytes) {
  ClipOptions options;
  options.method = bytes.enumerator<Method>();
  if (bytes.flag()) options.rank = bytes.integer();
  options.oversampling = bytes.integer();
  options.power_passes = static_cast<int>(bytes.integer());
  options.tolerance = bytes.real();
  options.margin = bytes.flag() ? bytes.real() : 1e-3;
  options.max_passes = static_cast<int>(bytes.integer());
  options.max_columns = bytes.integer();
  options.exhausted = bytes.enumerator<Exhausted>();
  return options;
}

ThresholdOptions decode_threshold(Bytes& bytes) {
  ThresholdOptions options;
  options.kind = bytes.enumerator<ThresholdKind>();
  options.first_step = bytes.enumerator<FirstStep>();
  options.interpolation = bytes.enumerator<Interpolation>();
  options.observe_zeros = bytes.flag();
  const auto changed = bytes.raw<std::uint8_t>();  // few changes at once, so that many inputs are accepted
  if ((changed & 1U) != 0) options.tau = bytes.real();
  if ((changed & 2U) != 0) options.decay = bytes.real();
  if ((changed & 4U) != 0) options.quantile = bytes.real();
  if ((changed & 8U) != 0) options.window = bytes.integer();
  if ((changed & 16U) != 0) options.slack = bytes.real();
  if ((changed & 32U) != 0) options.floor = bytes.real();
  if ((changed & 64U) != 0) options.cap = bytes.real();
  if ((changed & 128U) != 0) options.warmup_steps = bytes.integer();
  return options;
}

void check_clip_options(Bytes& bytes) {
  const ClipOptions options = decode_clip(bytes);
  if (!accepted(options)) return;
  require(parse_method(to_string(options.method)) == options.method);
  require(!options.rank || *options.rank + options.oversampling > 0);
  require(options.margin > 0 && options.margin <= 0.1 && options.tolerance > 0 && options.tolerance < 1);
  require(options.exhausted <= Exhausted::automatic);
}

void check_tau(const ThresholdOptions& options, const ThresholdState& state, std::span<const double> recorded) {
  const double tau = threshold(options, state);
  require(tau >= 0);
  require(tau == kInfinity || (tau >= options.floor && tau <= options.cap));
  require(state.observed >= options.warmup_steps || tau == kInfinity);
  if (options.kind != ThresholdKind::quantile || recorded.empty() || state.observed < options.warmup_steps) return;
  const auto used = std::min(recorded.size(), static_cast<std::size_t>(options.window));
  const auto [low, high] = std::ranges::minmax(recorded.last(used));
  require(tau >= std::clamp(low * options.slack, options.floor, options.cap));
  require(tau <= std::clamp(high * options.slack, options.floor, options.cap));
}

void check_threshold(Bytes& bytes) {
  const ThresholdOptions options = decode_threshold(bytes);
  if (!accepted(options)) return;
  require(!to_string(options).empty());
  if (options.window > 4096) return;  // allowed, but slow to fill here
  ThresholdState state = make_threshold_state(options);
  std::vector<double> recorded;
  check_tau(options, state, recorded);
  for (int i = 0; i < 64 && !bytes.empty(); ++i) {
    const double sigma = bytes.real();
    if (observe(options, state, sigma)) recorded.push_back(sigma);
    require(std::cmp_equal(state.observed, recorded.size()));
    require(fits(options, state));
    check_tau(options, state, recorded);
  }
}

void check_rule(Bytes& bytes) {
  Rule rule;
  rule.name_pattern = bytes.text();
  rule.batch_axes = static_cast<int>(bytes.integer());
  rule.row_axes = static_cast<int>(bytes.integer());
  Parameter parameter{bytes.text(), {}};
  for (int i = bytes.raw<std::uint8_t>() % 6; i > 0; --i) parameter.shape.push_back(bytes.integer());
  const std::string bare = normalized_name(parameter.name);
  require(bare.size() <= parameter.name.size() && normalized_name(bare) == bare);
  require(glob_match("*" + rule.name_pattern, rule.name_pattern) || rule.name_pattern.find('?') != std::string::npos);
  static_cast<void>(glob_match(rule.name_pattern, parameter.name));
  static_cast<void>(find_rule(default_rules(), parameter));
  try {
    const Matricized matrices = matricize(rule, parameter);
    std::int64_t entries = 1;
    for (const std::int64_t extent : parameter.shape) entries *= extent;  // overflow here: UBSan
    require(matrices.rows >= 1 && matrices.cols >= 1 && matrices.count * matrices.rows * matrices.cols == entries);
  } catch (const InvalidArgument&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Bytes bytes({data, size});
  check_clip_options(bytes);
  check_rule(bytes);
  check_threshold(bytes);
  return 0;
}
