// SPDX-License-Identifier: Apache-2.0
#include "clipper/agreement.h"

#include <bit>
#include <utility>

#include "random/name_hash.h"
#include "require.h"
#include "spectralclip/version.h"

namespace spectralclip {
namespace {

void mix(std::uint64_t& hash, std::uint64_t value) noexcept { hash = mixed_bits(hash + 0x9e3779b97f4a7c15ULL + value); }
void mix(std::uint64_t& hash, std::int64_t value) noexcept { mix(hash, static_cast<std::uint64_t>(value)); }
void mix(std::uint64_t& hash, double value) noexcept { mix(hash, std::bit_cast<std::uint64_t>(value)); }

void mix(std::uint64_t& hash, const ClipOptions& clip) noexcept {
  mix(hash, static_cast<std::int64_t>(clip.method));
  mix(hash, clip.rank.value_or(-1));
  for (const std::int64_t value :
       {clip.oversampling, static_cast<std::int64_t>(clip.power_passes), static_cast<std::int64_t>(clip.max_passes),
        clip.max_columns, static_cast<std::int64_t>(clip.exhausted), static_cast<std::int64_t>(clip.observe_only)})
    mix(hash, value);
  mix(hash, clip.tolerance);
  mix(hash, clip.margin);
  mix(hash, clip.seed);
}

// Names, shapes, splits and options, in their order.
std::uint64_t hash_of_layers(const LayerSet& set) {
  std::uint64_t hash = set.layers.size();
  for (std::size_t i = 0; i < set.layers.size(); ++i) {
    const Layer& layer = set.layers[i];
    const LayerReport& report = set.reports[i];
    mix(hash, layer.matrix_id);
    for (const std::int64_t value : {report.rows, report.cols, static_cast<std::int64_t>(report.treatment),
                                     static_cast<std::int64_t>(layer.part.split), std::int64_t{layer.part.group}})
      mix(hash, value);
    mix(hash, layer.clip);
    mix(hash, static_cast<std::int64_t>(layer.threshold.kind));
    for (const double value : {layer.threshold.tau, layer.threshold.decay, layer.threshold.quantile,
                               layer.threshold.slack, layer.threshold.floor, layer.threshold.cap})
      mix(hash, value);
    mix(hash, layer.threshold.window);
    mix(hash, layer.threshold.warmup_steps);
  }
  return hash;
}

// Thresholds, and of the subspaces their sizes and every 61st entry: states that ranks loaded from different files
// differ there. The subspaces of matrices that lie on one rank only are that rank's business.
std::uint64_t hash_of_states(const LayerSet& set) {
  constexpr std::size_t kStride = 61;
  std::uint64_t hash = 0;
  for (std::size_t i = 0; i < set.layers.size(); ++i) {
    const Layer& layer = set.layers[i];
    mix(hash, set.reports[i].steps);
    mix(hash, layer.threshold_state.observed);
    mix(hash, layer.threshold_state.average);
    for (const double value : layer.threshold_state.sorted) mix(hash, value);
    if (layer.part.split == Split::matrices) continue;
    const SubspaceState& state = layer.subspace;
    for (const std::int64_t value : {state.cols, state.columns, state.kept, state.calm_steps, state.clipped_lately})
      mix(hash, value);
    for (std::size_t at = 0; at < state.V.size(); at += kStride) mix(hash, static_cast<double>(state.V[at]));
  }
  return hash;
}

std::uint64_t hash_of_machine() noexcept {
  std::uint64_t hash = name_hash(simd_target());
  mix(hash, name_hash(version()));
  return hash;
}

std::uint64_t hash_of_gradients(const LayerSet& set, std::span<const Gradient> gradients) {
  std::uint64_t hash = 0;
  for (const Layer& layer : set.layers) {
    const Gradient& gradient = gradients[layer.parameter];
    mix(hash, std::int64_t{gradient.data == nullptr ? -1 : static_cast<int>(gradient.type)});
  }
  return hash;
}

}  // namespace

void Agreement::put(Subject subject, std::uint64_t hash) noexcept {
  for (std::size_t piece = 0; piece < kPieces; ++piece) {
    const auto h = static_cast<double>((hash >> (20 * piece)) & 0xfffffU);
    own_[subject][piece] = h;
    double* const out = numbers_.data() + 2 + 2 * (subject * kPieces + piece);
    out[0] = h;
    out[1] = h * h;
  }
}

bool Agreement::same(Subject subject, std::span<const double> sums) const noexcept {
  for (std::size_t piece = 0; piece < kPieces; ++piece) {
    const double h = own_[subject][piece];
    const double* const sum = sums.data() + 2 + 2 * (subject * kPieces + piece);
    if (sum[0] != ranks_ * h || sum[1] != ranks_ * h * h) return false;
  }
  return true;
}

void Agreement::begin(const LayerSet& set, std::span<const Gradient> present, int group, const std::string& refusal) {
  group_ = group;
  refusal_ = refusal;
  numbers_[0] = 1;
  numbers_[1] = refusal.empty() ? 0 : 1;
  put(layers, hash_of_layers(set));
  put(machine, hash_of_machine());
  put(states, hash_of_states(set));
  put(gradients, refusal.empty() ? hash_of_gradients(set, present) : 0);
  presence_.assign(2 * set.layers.size(), 0.0);
  if (!refusal.empty()) return;
  for (std::size_t i = 0; i < set.layers.size(); ++i) {
    presence_[2 * i] = present[set.layers[i].parameter].data != nullptr ? 1 : 0;
    presence_[2 * i + 1] = static_cast<double>(set.layers[i].part.extent);
  }
}

bool Agreement::check(std::span<const double> sums) {
  ranks_ = sums[0];
  if (!refusal_.empty()) throw InvalidArgument(refusal_);
  if (sums[1] > 0)
    throw RanksDisagree(
        detail::concat("gradients were refused on ", sums[1], " of ", ranks_, " other ranks; nothing was clipped"));
  if (!same(layers, sums))
    throw RanksDisagree(
        "ranks disagree about the layers: their names, order, shapes, splits or options differ; nothing was clipped");
  if (!same(machine, sums))
    throw RanksDisagree(detail::concat("ranks run different kernels (here ", simd_target(), ", version ", version(),
                                       "): choose one instruction set for all (set_simd_target); nothing was clipped"));
  if (!same(states, sums))
    throw RanksDisagree("ranks disagree about the clipper's state: load the same one everywhere; nothing was clipped");
  types_differ_ = !same(gradients, sums);
  return std::exchange(first_, false) || types_differ_;
}

void Agreement::check_presence(const LayerSet& set, std::span<const double> sums) const {
  std::string missing;
  for (std::size_t i = 0; i < set.layers.size(); ++i) {
    const LayerReport& report = set.reports[i];
    const double ranks = sums[2 * i];
    if (ranks > 0 && ranks < ranks_) missing += (missing.empty() ? "" : ", ") + report.name;
    const Part& part = set.layers[i].part;
    if (!is_split(set.layers[i]) || part.group != group_) continue;
    const std::int64_t whole = part.split == Split::rows ? report.rows : report.cols;
    if (sums[2 * i + 1] != static_cast<double>(whole))
      throw RanksDisagree(detail::concat("layer \"", report.name, "\": the ranks hold ", sums[2 * i + 1], " of its ",
                                         whole, part.split == Split::rows ? " rows" : " columns",
                                         " together; nothing was clipped"));
  }
  if (!missing.empty())
    throw RanksDisagree(detail::concat("ranks disagree about who has a gradient: some have none for ", missing,
                                       "; nothing was clipped"));
  if (types_differ_) throw RanksDisagree("ranks disagree about the types of gradients; nothing was clipped");
}

}  // namespace spectralclip
