// SPDX-License-Identifier: Apache-2.0
// Constant thresholds from what a run recorded in layers.jsonl, as the Python clipper's propose() gives them.
#pragma once

#include <string>
#include <vector>

#include "spectralclip/proposal.h"

namespace spectralclip::lab::report {

struct ProposedLayer {
  std::string name;
  ThresholdProposal proposal;
  double share_at_model = 0;  // how often the one number for the model would have clipped it
  std::vector<double> steps;  // the recorded steps, and …
  std::vector<double> sigma;  // … sigma_max of the gradient before it was clipped
};

struct RunProposal {
  std::vector<ProposedLayer> layers;
  ThresholdProposal model;   // in the wanted share of the steps at least one layer is above it
  ThresholdProposal pooled;  // it clips that share of all layers and steps counted together
};

// Throws InvalidArgument when there is no such file, nothing in it, or share is not in [0, 1). What was skipped is said
// in `warnings`.
[[nodiscard]] RunProposal propose_from(const std::string& layers_file, double share,
                                       std::vector<std::string>& warnings);

// A table for the terminal, ending with a newline.
[[nodiscard]] std::string proposal_table(const RunProposal& proposal, double share);

// One panel a layer: sigma_max over the steps on a logarithmic axis, the proposed tau and its interval, and the one
// number for the model. A picture of its own (SVG), readable in any browser.
[[nodiscard]] std::string proposal_picture(const RunProposal& proposal, double share, const std::string& title);

}  // namespace spectralclip::lab::report
