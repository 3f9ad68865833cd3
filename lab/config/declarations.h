// SPDX-License-Identifier: Apache-2.0
// The one place where keys are declared: visit(config, see) calls see(key, field, allowed, help) for each. TOML files,
// --set, --help, the list of keys in the documents and the resolved configuration of a run all come from here. The keys
// of a spectral clip ("clip.method", "clip.tau", …) are those of spectralclip/settings.h, and those of a task
// ("nanogpt.layers", …) stand in its own folder (key_group.h); keys.cpp adds both.
#pragma once

#include "config/allowed.h"
#include "config/config.h"

namespace spectralclip::lab {

template <class See>
void visit_run(Config& c, See&& see) {
  see("task", c.task, AnyValue{"a task of `spectralclip list`"}, "what is computed");
  see("name", c.name, AnyValue{"text"}, "label of the curve; runs that differ only in the seed share it");
  see("seed", c.seed, at_least(0), "of data, first weights, batches and noise");
  see("threads", c.threads, between(1, 1024),
      "of torch and of the clipper; results do not depend on it for the clipper");
  see("device", c.device, AnyValue{"cpu, cuda, cuda:1, mps, …"}, "where networks train");
}

template <class See>
void visit_train(TrainConfig& c, See&& see) {
  see("train.steps", c.steps, between(1, 1e9), "steps of the optimizer (rates: the largest K)");
  see("train.seconds", c.seconds, at_least(0),
      "instead of steps: train until so much time went into training (evaluation not counted); 0: by steps");
  see("train.batch", c.batch, between(1, 1e6), "samples of one forward and backward pass");
  see("train.accumulation", c.accumulation, between(1, 1e6), "such passes a step; their gradients are averaged");
  see("train.autocast", c.autocast, Choice{{"none", "bfloat16"}}, "type of matrix products in forward and backward");
  see("train.warmup_steps", c.warmup_steps, at_least(0), "linear rise of the learning rate at the start");
  see("train.schedule", c.schedule, Choice{{"constant", "linear", "cosine"}}, "learning rate after that");
  see("train.final_lr", c.final_lr, between(0, 1), "linear, cosine: last rate as a share of the first");
}

template <class See>
void visit_record(RecordConfig& c, See&& see) {
  see("record.log_every", c.log_every, at_least(1), "steps between lines of metrics.jsonl (and each of the first 20)");
  see("record.eval_every", c.eval_every, at_least(0), "steps between evaluations; 0: only at the end");
  see("record.layers_every", c.layers_every, at_least(0), "steps between lines of layers.jsonl; 0: none");
  see("record.spectra_every", c.spectra_every, at_least(0), "steps between lines of spectra.jsonl; 0: none");
  see("record.checkpoint_every", c.checkpoint_every, at_least(0),
      "steps between checkpoints; 0: only when stopped and at the end");
  see("record.certify_every", c.certify_every, at_least(0),
      "spectral: steps between checks of each clipped gradient by eigenvalues in float64; 0: none");
}

template <class See>
void visit_data(DataConfig& c, See&& see) {
  see("data.path", c.path, AnyValue{"file, folder or glob"}, "instead of the data set that `spectralclip data` finds");
  see("data.corrupt", c.corrupt, between(0, 1), "share of the training labels or tokens that are replaced at random …");
  see("data.corrupt_burst", c.corrupt_burst, at_least(1), "… in runs of so many samples (labels) or tokens");
}

template <class See>
void visit_optimizer(OptimizerConfig& c, See&& see) {
  see("optimizer.kind", c.kind, Choice{{"sgd", "sgdm", "adam", "adamw", "muon"}}, "the optimizer");
  see("optimizer.lr", c.lr, at_least(0), "learning rate");
  see("optimizer.momentum", c.momentum, Range{.low = 0, .high = 1, .open_high = true}, "sgdm, muon: beta");
  see("optimizer.momentum_form", c.momentum_form, Choice{{"ema", "classic"}},
      "sgdm: B = beta B + (1 - beta) G (the paper) or B = beta B + G (torch, the published code)");
  see("optimizer.nesterov", c.nesterov, switch_value(), "sgdm (classic), muon: step along G + beta B");
  see("optimizer.weight_decay", c.weight_decay, at_least(0), "coupled for sgd, sgdm, adam; decoupled for adamw, muon");
  see("optimizer.beta1", c.beta1, Range{.low = 0, .high = 1, .open_high = true}, "adam, adamw");
  see("optimizer.beta2", c.beta2, Range{.low = 0, .high = 1, .open_high = true}, "adam, adamw");
  see("optimizer.eps", c.eps, above(0), "adam, adamw");
  see("optimizer.vectors", c.vectors, Choice{{"same", "adam", "adamw"}},
      "for vectors, embeddings and heads: the same optimizer, or another beside it");
  see("optimizer.vector_lr", c.vector_lr, at_least(0), "its learning rate");
}

template <class See>
void visit_clip(ClipConfig& c, See&& see) {
  see("clip.kind", c.kind,
      Choice{{"none", "global_norm", "layer_norm", "agc", "coordinate", "spectral", "soft", "soft_update"}},
      "what is done to the gradients");
  see("clip.max_norm", c.max_norm, at_least(0), "global_norm, layer_norm");
  see("clip.agc_factor", c.agc_factor, above(0), "agc: gradient norm of a unit per norm of its weights");
  see("clip.max_value", c.max_value, at_least(0), "coordinate");
  see("clip.soft_scale", c.soft_scale, above(0), "soft, soft_update: c");
}

template <class See>
void visit_noise(NoiseConfig& c, See&& see) {
  see("noise.kind", c.kind, Choice{{"none", "gaussian", "pareto", "rank_gaussian", "rank_pareto"}},
      "added to every gradient: dense, or a sum of rank-one terms s u v^T with unit u, v");
  see("noise.probability", c.probability, between(0, 1), "share of the steps that are hit");
  see("noise.scale", c.scale, at_least(0), "Pareto: least size x_m; Gaussian: standard deviation");
  see("noise.alpha", c.alpha, above(0), "Pareto: tail index");
  see("noise.rank", c.rank, between(1, 1e6), "rank_gaussian, rank_pareto: terms");
}

template <class See>
void visit_trace(TraceConfig& c, See&& see) {
  see("trace.n", c.n, between(1, 64), "X is n x n");
  see("trace.terms", c.terms, between(1, 1e6), "N: terms of the sum");
  see("trace.sigma", c.sigma, at_least(0), "noise in b");
  see("trace.lr_scale", c.lr_scale, above(0), "learning rate times L");
  see("trace.taus", c.taus, at_least(0), "constant thresholds");
  see("trace.decay", c.decay, inside(0, 1), "EMA: weight of the past");
  see("trace.quantile", c.quantile, between(0, 1), "quantile: which one …");
  see("trace.window", c.window, at_least(1), "… of how many past values");
  see("trace.bias", c.bias, Choice{{"expectation", "monte_carlo"}},
      "Delta_k over all terms (the definition) or over `samples` draws (the published script)");
  see("trace.samples", c.samples, between(1, 1e6), "monte_carlo: draws");
  see("trace.first_step", c.first_step, Choice{{"zero", "unclipped"}}, "EMA: tau before anything was observed");
  see("trace.quantile_first_step", c.quantile_first_step, Choice{{"zero", "unclipped"}}, "quantile: the same");
  see("trace.ema_eps", c.ema_eps, at_least(0), "EMA: added to each sigma_max that is observed");
  see("trace.interpolation", c.interpolation, Choice{{"lower", "linear"}}, "quantile: between two values");
}

template <class See>
void visit_rates(RatesConfig& c, See&& see) {
  see("rates.rows", c.rows, between(1, 1000), "X is rows …");
  see("rates.cols", c.cols, between(1, 1000), "… x cols");
  see("rates.alpha", c.alpha, Range{.low = 1, .high = 2, .open_low = true}, "moment that the theorems are given");
  see("rates.tail", c.tail, above(1), "tail index of the noise, above alpha");
  see("rates.tau", c.tau, at_least(0), "Theorem 1: the constant threshold; Theorem 2 has its own");
  see("rates.noise", c.noise, Choice{{"gaussian", "pareto", "rank_gaussian", "rank_pareto"}}, "as noise.kind");
  see("rates.noise_scale", c.noise_scale, above(0), "as noise.scale");
  see("rates.noise_rank", c.noise_rank, between(1, 1000), "as noise.rank");
  see("rates.distance", c.distance, above(0), "of the start from the minimiser, per entry");
  see("rates.first_steps", c.first_steps, between(1, 1e9), "smallest K");
  see("rates.points", c.points, between(2, 1000), "values of K, evenly in log K");
  see("rates.repeats", c.repeats, between(2, 1e6), "runs that an expectation is taken over");
  see("rates.bias_samples", c.bias_samples, between(2, 1e6), "draws that Delta_k is estimated from, at each of …");
  see("rates.bias_points", c.bias_points, between(1, 1e6), "… so many steps of a run");
}

template <class See>
void visit(Config& c, See&& see) {
  visit_run(c, see);
  visit_train(c.train, see);
  visit_record(c.record, see);
  visit_data(c.data, see);
  visit_optimizer(c.optimizer, see);
  visit_clip(c.clip, see);
  visit_noise(c.noise, see);
  visit_trace(c.trace, see);
  visit_rates(c.rates, see);
}

}  // namespace spectralclip::lab
