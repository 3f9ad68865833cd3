// SPDX-License-Identifier: Apache-2.0
// The step over all layers: check everything, then clip each layer, then add up. One step at a time: a Clipper is not
// to be shared by threads without a lock, its executor brings the threads.
#include "spectralclip/clipper.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <string>
#include <utility>

#include "clipper/atomic_file.h"
#include "clipper/checkpoint.h"
#include "clipper/internals.h"
#include "clipper/layer.h"
#include "clipper/schedule.h"
#include "clipper/sharded_step.h"
#include "require.h"

namespace spectralclip {
namespace {

std::vector<std::int64_t> entries_of(const std::vector<LayerReport>& reports) {
  std::vector<std::int64_t> entries;
  entries.reserve(reports.size());
  for (const LayerReport& report : reports) entries.push_back(report.rows * report.cols);
  return entries;
}

// In layer order and in double: the sums do not depend on who clipped what when.
StepReport summary_of(std::span<const LayerReport> layers) {
  StepReport step;
  double before = 0;
  double after = 0;
  for (const LayerReport& layer : layers) {
    if (!layer.has_gradient) continue;
    const ClipReport& clip = layer.clip;
    if (clip.status == ClipStatus::not_finite) {
      ++step.layers_not_finite;
      continue;
    }
    before += clip.norm_before * clip.norm_before;
    after += clip.norm_after * clip.norm_after;
    if (clip.clipped > 0) ++step.layers_clipped;
    if (clip.status == ClipStatus::rank_exhausted) ++step.layers_rank_exhausted;
    if (clip.status == ClipStatus::not_converged) ++step.layers_not_converged;
    if (clip.status == ClipStatus::out_of_range) ++step.layers_out_of_range;
    if (clip.status == ClipStatus::out_of_memory) ++step.layers_out_of_memory;
  }
  step.total_norm = std::sqrt(before);
  step.norm_after = std::sqrt(after);
  step.layers = layers;
  return step;
}

}  // namespace

struct Clipper::Impl {
  Impl(const std::vector<Parameter>& parameters, const ClipperOptions& wanted) : options(wanted) { add(parameters); }

  ClipperOptions options;
  std::size_t parameter_count = 0;
  LayerSet set;
  Schedule schedule{{}};
  WorkspacePool workspaces;
  ShardedStep sharded{set, workspaces};
  std::unique_ptr<ThreadPool> own_pool;
  std::int64_t steps = 0;
  std::vector<std::string> load_notes;  // of the latest deserialize()

  void add(const std::vector<Parameter>& parameters) {
    const auto layers = static_cast<std::ptrdiff_t>(set.layers.size());
    append_layers(set, parameters, options, parameter_count);
    try {
      schedule = Schedule(entries_of(set.reports));
    } catch (...) {
      set.layers.erase(set.layers.begin() + layers, set.layers.end());
      set.reports.erase(set.reports.begin() + layers, set.reports.end());
      throw;
    }
    parameter_count += parameters.size();
    sharded.layers_changed();
  }

  // What a rank sums over the others, bucket by bucket.
  void step_in_rounds(std::span<const Gradient> gradients, Reduction& reduction, Executor& executor) {
    begin_rounds(gradients, {}, executor);
    while (const int buckets = sharded.next(executor))
      for (int b = 0; b < buckets; ++b) {
        const std::span<const SumBlock> blocks = sharded.run(b, executor);
        if (!blocks.empty()) reduction.sum(blocks);
      }
  }
  // A rank that was called wrongly says so to the others instead of leaving them alone.
  void begin_rounds(std::span<const Gradient> gradients, std::string refusal, Executor& executor) {
    workspaces.provide(executor.concurrency());
    try {
      if (refusal.empty()) check(gradients);
    } catch (const InvalidArgument& error) {
      refusal = error.what();
    }
    forget_latest_reports();
    sharded.begin(gradients, options.on_nonfinite == OnNonFinite::leave_all, refusal);
  }

  StepReport end_rounds() {
    workspaces.level();
    StepReport report = summary_of(set.reports);
    report.step = ++steps;
    report.left_all = sharded.left_all();
    return report;
  }

  void require_whole() const {
    const auto split = std::find_if(set.layers.begin(), set.layers.end(),
                                    [](const Layer& layer) { return layer.part.split != Split::none; });
    if (split == set.layers.end()) return;
    const LayerReport& report = set.reports[static_cast<std::size_t>(split - set.layers.begin())];
    throw InvalidArgument(
        detail::concat("layer \"", report.name, "\" is split over ranks: its step needs a reduction"));
  }

  void check(std::span<const Gradient> gradients) const {
    SPECTRALCLIP_REQUIRE(gradients.size() == parameter_count, gradients.size(), " gradients were given for ",
                         parameter_count, " parameters");
    for (std::size_t i = 0; i < set.layers.size(); ++i) {
      const Gradient& gradient = gradients[set.layers[i].parameter];
      if (gradient.data != nullptr) require_usable(gradient, set.layers[i], set.reports[i]);
    }
  }

  // work(i, G, workspace, executor) for each layer that has a gradient.
  template <class Work>
  void for_each_gradient(std::span<const Gradient> gradients, Executor& executor, const Work& work) {
    for_each_layer(schedule, workspaces, executor, [&](std::size_t i, Workspace& workspace, Executor& inside) {
      const Layer& layer = set.layers[i];
      const Gradient& gradient = gradients[layer.parameter];
      if (gradient.data != nullptr) work(i, matrix_of(gradient, layer, set.reports[i]), workspace, inside);
    });
  }

  bool all_finite(std::span<const Gradient> gradients, Executor& executor) {
    std::atomic<bool> finite = true;
    for_each_gradient(gradients, executor, [&](std::size_t i, const AnyMatrix& G, Workspace&, Executor& inside) {
      if (!measure_layer(set.reports[i], G, inside)) finite = false;
    });
    return finite;
  }

  void clip_all(std::span<const Gradient> gradients, Executor& executor) {
    for_each_gradient(gradients, executor,
                      [&](std::size_t i, const AnyMatrix& G, Workspace& workspace, Executor& inside) {
                        clip_layer(set.layers[i], set.reports[i], G, workspace, inside);
                      });
    workspaces.level();
  }

  void forget_latest_reports() noexcept {
    for (LayerReport& report : set.reports) {
      report.has_gradient = false;
      report.clip = {};
    }
  }
};

// NOLINTNEXTLINE(performance-unnecessary-value-param): the interface leaves it open to keep them
Clipper::Clipper(std::vector<Parameter> parameters, ClipperOptions options)
    : impl_(std::make_unique<Impl>(parameters, options)) {}
Clipper::~Clipper() = default;
Clipper::Clipper(Clipper&&) noexcept = default;
Clipper& Clipper::operator=(Clipper&&) noexcept = default;

StepReport Clipper::step(std::span<const Gradient> gradients, Executor& executor) {
  impl_->require_whole();
  impl_->check(gradients);
  impl_->workspaces.provide(executor.concurrency());
  impl_->forget_latest_reports();
  const bool leave_all =
      impl_->options.on_nonfinite == OnNonFinite::leave_all && !impl_->all_finite(gradients, executor);
  if (!leave_all) impl_->clip_all(gradients, executor);
  StepReport report = summary_of(impl_->set.reports);
  report.step = ++impl_->steps;
  report.left_all = leave_all;
  return report;
}

StepReport Clipper::step(std::span<const Gradient> gradients, Reduction& reduction, Executor& executor) {
  impl_->step_in_rounds(gradients, reduction, executor);
  return impl_->end_rounds();
}

StepReport Clipper::step(std::span<const Gradient> gradients) {
  if (!impl_->own_pool) impl_->own_pool = std::make_unique<ThreadPool>();
  return step(gradients, *impl_->own_pool);
}

void Clipper::step_parameter(std::size_t parameter, const Gradient& gradient, Executor& executor) {
  SPECTRALCLIP_REQUIRE(parameter < impl_->parameter_count, "parameter ", parameter, " is beyond the ",
                       impl_->parameter_count, " of this clipper");
  SPECTRALCLIP_REQUIRE(gradient.data != nullptr, "parameter ", parameter, ": its gradient is null");
  LayerSet& set = impl_->set;
  const auto first = std::partition_point(set.layers.begin(), set.layers.end(),
                                          [&](const Layer& layer) { return layer.parameter < parameter; });
  const auto begin = static_cast<std::size_t>(first - set.layers.begin());
  std::size_t end = begin;
  for (; end < set.layers.size() && set.layers[end].parameter == parameter; ++end) {
    SPECTRALCLIP_REQUIRE(set.layers[end].part.split == Split::none, "layer \"", set.reports[end].name,
                         "\" is split over ranks: it is clipped with all others, by a step with a reduction");
    require_usable(gradient, set.layers[end], set.reports[end]);
  }
  const WorkspacePool::Lease workspace(impl_->workspaces);
  for (std::size_t i = begin; i < end; ++i) {
    const AnyMatrix G = matrix_of(gradient, set.layers[i], set.reports[i]);
    clip_layer(set.layers[i], set.reports[i], G, *workspace, executor);
  }
}

void Clipper::add(const std::vector<Parameter>& parameters) { impl_->add(parameters); }

LayerSet& ClipperInternals::layers(Clipper& clipper) noexcept { return clipper.impl_->set; }
ShardedStep& ClipperInternals::begin_rounds(Clipper& clipper, std::span<const Gradient> gradients,
                                            const std::string& refusal, Executor& executor) {
  clipper.impl_->begin_rounds(gradients, refusal, executor);
  return clipper.impl_->sharded;
}
StepReport ClipperInternals::end_rounds(Clipper& clipper) { return clipper.impl_->end_rounds(); }
StepReport ClipperInternals::summary(std::span<const LayerReport> layers) { return summary_of(layers); }

std::span<const LayerReport> Clipper::layers() const noexcept { return impl_->set.reports; }
std::span<const std::string> Clipper::load_notes() const noexcept { return impl_->load_notes; }
std::int64_t Clipper::steps() const noexcept { return impl_->steps; }
std::int64_t Clipper::state_bytes() const noexcept { return checkpoint_bytes(impl_->set); }
std::int64_t Clipper::workspace_bytes() const noexcept { return impl_->workspaces.bytes() + impl_->sharded.bytes(); }

std::vector<std::uint8_t> Clipper::serialize() const { return encode_checkpoint(impl_->steps, impl_->set); }

void Clipper::deserialize(std::span<const std::uint8_t> bytes) {
  Checkpoint checkpoint = decode_checkpoint(bytes, impl_->set);  // may throw; below nothing does
  for (std::size_t i = 0; i < checkpoint.layers.size(); ++i) {
    LayerState& state = checkpoint.layers[i];
    impl_->set.layers[i].threshold_state = std::move(state.threshold);
    impl_->set.layers[i].subspace = std::move(state.subspace);
    impl_->set.reports[i].steps = state.steps;
    impl_->set.reports[i].steps_clipped = state.steps_clipped;
  }
  impl_->steps = checkpoint.steps;
  impl_->load_notes = std::move(checkpoint.notes);
  impl_->forget_latest_reports();
}

void Clipper::save(const std::string& path) const { write_file_atomically(path, serialize()); }

void Clipper::load(const std::string& path) {
  const std::vector<std::uint8_t> bytes = read_file(path);
  try {
    deserialize(bytes);
  } catch (const StateFileError& error) {
    throw StateFileError(path + ": " + error.what());
  }
}

}  // namespace spectralclip
