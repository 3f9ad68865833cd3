// SPDX-License-Identifier: Apache-2.0
#include "clipper/shared_work.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <type_traits>

#include "clip/cost.h"
#include "require.h"

namespace spectralclip {
namespace {

double cost_of(const Layer& layer, const LayerReport& report) {
  if (report.treatment != Treatment::spectral)
    return 2e-4 * static_cast<double>(report.rows * report.cols);  // one read
  const bool dense = layer.clip.method == Method::exact || layer.clip.method == Method::gram ||
                     layer.clip.method == Method::newton_schulz;
  const double search = 2 * pass_cost(report.rows, report.cols, kTypicalColumns);
  const double gram = gram_cost(report.rows, report.cols);
  return dense ? gram : std::min(search, gram);
}

struct Head {
  std::int64_t layer = 0;
  ClipReport report;
  std::int64_t cols = 0, columns = 0, kept = 0, calm_steps = 0, clipped_lately = 0;
  std::int64_t entries = 0;  // of V
  std::int64_t factor_bytes = 0;
};
static_assert(std::is_trivially_copyable_v<Head>);

}  // namespace

std::vector<int> owners_of(const LayerSet& set, int ranks) {
  std::vector<std::size_t> order(set.layers.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::vector<double> costs(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) costs[i] = cost_of(set.layers[i], set.reports[i]);
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return costs[a] > costs[b]; });
  std::vector<int> owners(order.size(), -1);
  std::vector<double> loads(static_cast<std::size_t>(ranks), 0.0);
  for (const std::size_t i : order) {
    if (set.layers[i].part.split != Split::none) continue;
    const auto least = std::min_element(loads.begin(), loads.end());
    *least += costs[i];
    owners[i] = static_cast<int>(least - loads.begin());
  }
  return owners;
}

void write_shared(const LayerSet& set, std::size_t layer, const ClipFactors& factors, std::vector<std::uint8_t>& out) {
  const SubspaceState& state = set.layers[layer].subspace;
  const Head head{static_cast<std::int64_t>(layer),
                  set.reports[layer].clip,
                  state.cols,
                  state.columns,
                  state.kept,
                  state.calm_steps,
                  state.clipped_lately,
                  static_cast<std::int64_t>(state.V.size()),
                  static_cast<std::int64_t>(factors.bytes().size())};
  const auto put = [&](const void* data, std::size_t bytes) {
    if (bytes == 0) return;
    const auto* from = static_cast<const std::uint8_t*>(data);
    out.insert(out.end(), from, from + bytes);
  };
  put(&head, sizeof head);
  put(state.V.data(), state.V.size() * sizeof(float));
  put(factors.bytes().data(), factors.bytes().size());
}

std::vector<SharedLayer> read_shared(const LayerSet& set, std::span<const std::uint8_t> bytes) {
  std::vector<SharedLayer> layers;
  while (!bytes.empty()) {
    Head head;
    SPECTRALCLIP_REQUIRE(bytes.size() >= sizeof head, "a share of the work ends within a layer");
    std::memcpy(&head, bytes.data(), sizeof head);
    bytes = bytes.subspan(sizeof head);
    const auto most = static_cast<std::int64_t>(bytes.size());
    SPECTRALCLIP_REQUIRE(head.layer >= 0 && head.layer < static_cast<std::int64_t>(set.layers.size()) &&
                             head.entries >= 0 && head.entries <= most / 4 && head.factor_bytes >= 0 &&
                             head.factor_bytes <= most - 4 * head.entries && head.kept * head.cols == head.entries,
                         "a share of the work is damaged");
    SharedLayer shared;
    shared.layer = static_cast<std::size_t>(head.layer);
    shared.report = head.report;
    shared.subspace = {head.cols, head.columns, head.kept, head.calm_steps, head.clipped_lately, {}};
    shared.subspace.V.resize(static_cast<std::size_t>(head.entries));
    if (head.entries > 0) std::memcpy(shared.subspace.V.data(), bytes.data(), shared.subspace.V.size() * sizeof(float));
    bytes = bytes.subspan(shared.subspace.V.size() * sizeof(float));
    const auto factors = bytes.first(static_cast<std::size_t>(head.factor_bytes));
    shared.factors = ClipFactors({factors.begin(), factors.end()});
    bytes = bytes.subspan(factors.size());
    layers.push_back(std::move(shared));
  }
  return layers;
}

}  // namespace spectralclip
