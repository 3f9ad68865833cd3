// SPDX-License-Identifier: Apache-2.0
// The one place where options are declared by name. visit(options, see) calls see(name, field, allowed, help) for each;
// the text of `allowed` follows validate() in clip/options.cpp and threshold/.
#pragma once

#include "spectralclip/clipper.h"

namespace spectralclip {

template <class Options, class See>
void visit_clip(Options& o, See&& see) {
  see("method", o.method, "exact, gram, sketched, tracked, newton_schulz, auto", "how a matrix is clipped");
  see("rank", o.rank, "none or integer >= 1", "sketched: directions clipped (10); tracked: fixes the rank");
  see("oversampling", o.oversampling, "integer >= 0", "sketched: extra columns beside the rank");
  see("power_passes", o.power_passes, "integer in [0, 16]", "sketched: passes beyond the first");
  see("tolerance", o.tolerance, "number in (0, 1)", "tracked: wanted relative error of the removed part");
  see("margin", o.margin, "number in (0, 0.1]",
      "tracked, sketched: values within tau (1 + margin) need not be lowered");
  see("max_passes", o.max_passes, "integer in [1, 64]", "tracked: the budget, in reads of a matrix");
  see("max_columns", o.max_columns, "integer in [8, 512]", "tracked: widest subspace of a free rank");
  see("exhausted", o.exhausted, "go_exact, report, auto", "budget used up: finish by gram, or say so (auto: clippers)");
  see("observe_only", o.observe_only, "true, false", "report what would be clipped, write nothing");
  see("measure_time", o.measure_time, "true, false", "fill the report's seconds per stage");
  see("seed", o.seed, "integer >= 0", "of the random columns");
}

template <class Options, class See>
void visit_threshold(Options& o, See&& see) {
  see("kind", o.kind, "constant, ema, quantile", "where tau comes from");
  see("tau", o.tau, "number >= 0", "constant: the threshold");
  see("decay", o.decay, "number in (0, 1)", "ema: weight of the past");
  see("quantile", o.quantile, "number in [0, 1]", "quantile: which one …");
  see("window", o.window, "integer >= 1", "… of how many past values");
  see("first_step", o.first_step, "unclipped, zero", "what happens before anything was observed");
  see("interpolation", o.interpolation, "lower, linear", "quantile: between two values");
  see("slack", o.slack, "number > 0", "tau is multiplied by this …");
  see("floor", o.floor, "number >= 0", "… and kept above this …");
  see("cap", o.cap, "number >= floor", "… and below this");
  see("warmup_steps", o.warmup_steps, "integer >= 0", "values observed before the first clip");
  see("observe_zeros", o.observe_zeros, "true, false", "let zero gradients count, as the published clipper does");
}

template <class Options, class See>
void visit_rule(Options& o, See&& see) {
  see("name_pattern", o.name_pattern, "glob with * and ?", "which parameters, by name");
  see("min_dims", o.min_dims, "integer >= 0", "… and by least number of axes …");
  see("max_dims", o.max_dims, "integer >= min_dims", "… and most");
  see("treatment", o.treatment, "spectral, norm, skip", "what is done to them");
  see("batch_axes", o.batch_axes, "integer >= 0", "leading axes that count matrices");
  see("row_axes", o.row_axes, "integer >= 0", "axes after those that are rows; the rest are columns");
  see("label", o.label, "text", "shown per layer: why this rule");
}

template <class See>
void visit(ClipOptions& o, See&& see) {
  visit_clip(o, see);
}
template <class See>
void visit(ThresholdOptions& o, See&& see) {
  visit_threshold(o, see);
}
template <class See>
void visit(Rule& o, See&& see) {
  visit_rule(o, see);
}

}  // namespace spectralclip
