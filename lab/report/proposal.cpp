// SPDX-License-Identifier: Apache-2.0
#include "report/proposal.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <unordered_map>

#include "constants.h"
#include "report/jsonl.h"
#include "require.h"

namespace spectralclip::lab::report {
namespace {

class Gatherer {
 public:
  void take(const Json& line) {
    const double step = number_in(line, "step");
    const auto layers = line.find("layers");
    if (layers == line.end() || !layers->is_array()) return;
    for (const Json& layer : *layers) {
      const std::string name = text_in(layer, "name");
      const double sigma = number_in(layer, "sigma1");
      if (name.empty() || !std::isfinite(sigma)) continue;
      ProposedLayer& entry = layer_called(name);
      entry.steps.push_back(step);
      entry.sigma.push_back(sigma);
      all_.push_back(sigma);
      double& largest = largest_.try_emplace(step, sigma).first->second;
      largest = std::max(largest, sigma);
    }
  }

  RunProposal proposal(double share) && {
    RunProposal result{std::move(layers_), {}, propose_threshold(all_, share)};
    std::vector<double> largest;
    for (const auto& [step, sigma] : largest_) largest.push_back(sigma);
    result.model = propose_threshold(largest, share);
    for (ProposedLayer& layer : result.layers) {
      layer.proposal = propose_threshold(layer.sigma, share);
      const auto above =
          std::count_if(layer.sigma.begin(), layer.sigma.end(), [&](double sigma) { return sigma > result.model.tau; });
      layer.share_at_model = static_cast<double>(above) / static_cast<double>(layer.sigma.size());
    }
    return result;
  }

 private:
  ProposedLayer& layer_called(const std::string& name) {
    const auto [at, fresh] = places_.try_emplace(name, layers_.size());
    if (fresh) layers_.push_back({name, {}, 0, {}, {}});
    return layers_[at->second];
  }

  std::vector<ProposedLayer> layers_;
  std::unordered_map<std::string, std::size_t> places_;
  std::map<double, double> largest_;  // step -> largest sigma of all layers
  std::vector<double> all_;
};

std::string number(double value) { return std::isnan(value) ? "-" : fmt::format("{:.4g}", value); }
std::string percent(double share) { return std::isnan(share) ? "-" : fmt::format("{:.2g}%", 100 * share); }

using Row = std::vector<std::string>;

Row row_of(const std::string& name, const ThresholdProposal& p, const std::string& at_model) {
  return {name,
          fmt::format("{}", p.steps),
          number(p.tau),
          fmt::format("[{}, {}]", number(p.low), number(p.high)),
          number(p.early),
          number(p.late),
          percent(p.share),
          at_model};
}

}  // namespace

RunProposal propose_from(const std::string& layers_file, double share, std::vector<std::string>& warnings) {
  SPECTRALCLIP_REQUIRE(std::filesystem::is_regular_file(layers_file), layers_file,
                       " is not there: a run writes it every record.layers_every steps");
  Gatherer gatherer;
  const LineCounts lines = for_each_line(layers_file, [&](const Json& line) { gatherer.take(line); });
  if (lines.damaged > 0)
    warnings.push_back(fmt::format("{}: {} damaged lines were skipped", layers_file, lines.damaged));
  if (lines.torn) warnings.push_back(fmt::format("{}: its last line has no end and was skipped", layers_file));
  RunProposal proposal = std::move(gatherer).proposal(share);
  SPECTRALCLIP_REQUIRE(!proposal.layers.empty(), layers_file, " has no layer with a sigma1");
  return proposal;
}

std::string proposal_table(const RunProposal& proposal, double share) {
  std::vector<Row> rows = {{"layer", "steps", "tau", "95 %", "early", "late", "clipped", "by the one number"}};
  for (const ProposedLayer& layer : proposal.layers)
    rows.push_back(row_of(layer.name, layer.proposal, percent(layer.share_at_model)));
  rows.push_back(row_of("any layer at all", proposal.model, ""));
  rows.push_back(row_of("all layers pooled", proposal.pooled, ""));
  std::vector<std::size_t> widths(rows.front().size());
  for (const Row& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  std::string text = fmt::format("constant thresholds that would have clipped {} of {} recorded steps\n",
                                 percent(share), proposal.model.steps);
  for (const Row& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const bool flush_left = i == 0 || i == 3;
      line += flush_left ? fmt::format("{:<{}}  ", row[i], widths[i]) : fmt::format("{:>{}}  ", row[i], widths[i]);
    }
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

}  // namespace spectralclip::lab::report
