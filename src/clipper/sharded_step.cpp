// SPDX-License-Identifier: Apache-2.0
#include "clipper/sharded_step.h"

#include <algorithm>
#include <cmath>

#include "clip/entries.h"
#include "clip/sharded_clip.h"
#include "constants.h"

namespace spectralclip {
namespace {

// A bucket closes when its layers' first sums reach this: large enough for the wire, small enough to overlap.
constexpr std::int64_t kBucketBytes = std::int64_t{4} << 20;
constexpr std::int64_t kColumnsAtLeast = 8;

SumBlock run_of(std::span<double> numbers) {
  const auto n = static_cast<std::int64_t>(numbers.size());
  return {numbers.data(), 1, n, n, ScalarType::float64};
}

// What other ranks must know of a matrix that lies on one of them.
constexpr std::size_t kReportNumbers = 14;
void write_report(const ClipReport& report, double* out) {
  const double numbers[kReportNumbers] = {1,
                                          static_cast<double>(report.status),
                                          static_cast<double>(report.method),
                                          report.tau,
                                          report.sigma_max,
                                          static_cast<double>(report.clipped),
                                          report.norm_before,
                                          report.norm_after,
                                          report.removed_energy,
                                          report.sigma_bound,
                                          static_cast<double>(report.bound_kind),
                                          report.error_estimate,
                                          static_cast<double>(report.passes),
                                          static_cast<double>(report.columns)};
  std::copy(std::begin(numbers), std::end(numbers), out);
}
ClipReport read_report(const double* in) {
  ClipReport report;
  report.status = static_cast<ClipStatus>(in[1]);
  report.method = static_cast<Method>(in[2]);
  report.tau = in[3];
  report.sigma_max = in[4];
  report.clipped = static_cast<std::int64_t>(in[5]);
  report.norm_before = in[6];
  report.norm_after = in[7];
  report.removed_energy = in[8];
  report.sigma_bound = in[9];
  report.bound_kind = static_cast<BoundKind>(in[10]);
  report.error_estimate = in[11];
  report.passes = static_cast<int>(in[12]);
  report.columns = static_cast<std::int64_t>(in[13]);
  return report;
}

}  // namespace

struct ShardedStep::Entry {
  std::size_t layer = 0;
  ShardedClip clip;
  Arena basis;
  double square = 0;  // leave_all: its sum of squares
  bool active = false;
};

ShardedStep::ShardedStep(LayerSet& set, WorkspacePool& workspaces) : set_(set), workspaces_(workspaces) {}
ShardedStep::~ShardedStep() = default;
void ShardedStep::layers_changed() noexcept { entries_.clear(); }

// ---- the order of things

void ShardedStep::begin(std::span<const Gradient> gradients, bool leave_all, const std::string& refusal) {
  gradients_ = gradients;
  leave_all_ = leave_all;
  left_all_ = writing_ = whole_done_ = false;
  refusal_ = refusal;
  if (entries_.empty()) make_entries();
  stage_ = Stage::over;
}

// What stage_ brought is decided upon, the next one begins: how many buckets it has, 0 at the end.
int ShardedStep::next(Executor& executor) {
  switch (stage_) {
    case Stage::over:
      return start(Stage::agree);
    case Stage::agree:
      return after_agreement();
    case Stage::presence:
      for (std::size_t g = 0; g < agreements_.size(); ++g)
        agreements_[g].check_presence(set_, agreements_[g].presence());
      return leave_all_ ? start(Stage::measure) : start_rounds();
    case Stage::measure:
      return after_measure();
    case Stage::rounds:
      take_all(executor);
      return next_round();
    case Stage::matrices:
      take_matrices();
      stage_ = Stage::over;
      return 0;
  }
  return 0;
}

// One bucket a group, of whatever this stage sums.
int ShardedStep::start(Stage stage) {
  stage_ = stage;
  open_ = 0;
  for (int group = 0; group < groups(); ++group) open(open_, group);
  return groups();
}

void ShardedStep::open(std::size_t number, int group) {
  if (number == buckets_.size()) buckets_.emplace_back();
  buckets_[number].group = group;
  buckets_[number].entries.clear();
  buckets_[number].blocks.clear();
  open_ = number + 1;
}

std::span<const SumBlock> ShardedStep::run(int number, Executor& executor) {
  Bucket& bucket = buckets_[static_cast<std::size_t>(number)];
  bucket.blocks.clear();
  Agreement& agreement = agreements_[static_cast<std::size_t>(bucket.group)];
  if (stage_ == Stage::agree) {
    agreement.begin(set_, gradients_, bucket.group, refusal_);
    bucket.blocks.push_back(run_of(agreement.numbers()));
  } else if (stage_ == Stage::presence) {
    bucket.blocks.push_back(run_of(agreement.presence()));
  } else if (stage_ == Stage::measure) {
    measure(bucket, executor);
  } else if (stage_ == Stage::rounds) {
    run_round(bucket, executor);
  } else if (stage_ == Stage::matrices) {
    if (number == 0) {
      if (!whole_done_) clip_whole_layers(executor);
      fill_matrices();
    }
    if (!matrix_rows_.empty() && bucket.group == 0) bucket.blocks.push_back(run_of(matrix_rows_));
  }
  return bucket.blocks;
}

int ShardedStep::after_agreement() {
  bool ask = false;
  for (Agreement& agreement : agreements_) ask = agreement.check(agreement.numbers()) || ask;
  if (ask) return start(Stage::presence);
  return leave_all_ ? start(Stage::measure) : start_rounds();
}

// ---- leave_all: one read of all layers first

void ShardedStep::measure(Bucket& bucket, Executor& executor) {
  for (const auto& entry : entries_) {
    const Layer& layer = set_.layers[entry->layer];
    if (layer.part.group != bucket.group || gradient_of(entry->layer).data == nullptr) continue;
    const AnyMatrix G = matrix_of(gradient_of(entry->layer), layer, set_.reports[entry->layer]);
    entry->square = G.entries() == 0 ? 0.0 : sum_of_squares(G, executor);
    bucket.blocks.push_back(run_of({&entry->square, 1}));
  }
  if (bucket.group != 0) return;
  not_finite_here_ = 0;
  for (std::size_t i = 0; i < set_.layers.size(); ++i) {
    if (!runs_here(i)) continue;
    const AnyMatrix G = matrix_of(gradient_of(i), set_.layers[i], set_.reports[i]);
    if (!measure_layer(set_.reports[i], G, executor)) not_finite_here_ += 1;
  }
  bucket.blocks.push_back(run_of({&not_finite_here_, 1}));
}

int ShardedStep::after_measure() {
  left_all_ = not_finite_here_ > 0;
  for (const auto& entry : entries_) {
    if (gradient_of(entry->layer).data == nullptr) continue;
    if (!record_norm(set_.reports[entry->layer], std::sqrt(entry->square))) left_all_ = true;
  }
  if (!left_all_) return start_rounds();
  stage_ = Stage::over;
  return 0;
}

// ---- rounds: passes of all layers, until all have decided; then all writes

bool ShardedStep::runs_here(std::size_t i) const noexcept {
  return !is_split(set_.layers[i]) && is_here(set_.layers[i]) && gradient_of(i).data != nullptr;
}

void ShardedStep::make_entries() {
  int groups = 1;
  for (std::size_t i = 0; i < set_.layers.size(); ++i) {
    const Layer& layer = set_.layers[i];
    if (layer.part.split != Split::none) groups = std::max(groups, layer.part.group + 1);
    if (!is_split(layer)) continue;
    entries_.push_back(std::make_unique<Entry>());
    entries_.back()->layer = i;
  }
  agreements_.resize(static_cast<std::size_t>(groups));
}

void ShardedStep::begin_entry(Entry& entry) {
  Layer& layer = set_.layers[entry.layer];
  const LayerReport& report = set_.reports[entry.layer];
  const bool mirrored = layer.part.split == Split::columns;
  ShardedJob job;
  job.G = {matrix_of(gradient_of(entry.layer), layer, report), mirrored};
  job.rows = mirrored ? report.cols : report.rows;
  job.treatment = report.treatment;
  job.tau = report.treatment == Treatment::skip ? kInfinity : threshold(layer.threshold, layer.threshold_state);
  job.options = &layer.clip;
  job.stream = {
      .seed = layer.clip.seed, .matrix_id = layer.matrix_id, .step = static_cast<std::uint64_t>(report.steps)};
  entry.clip.begin(job, layer.subspace, entry.basis);
}

int ShardedStep::start_rounds() {
  for (const auto& entry : entries_) {
    entry->active = gradient_of(entry->layer).data != nullptr;
    if (entry->active) begin_entry(*entry);
  }
  return next_round();
}

int ShardedStep::next_round() {
  stage_ = Stage::rounds;
  bool any = false;
  writing_ = true;
  for (const auto& entry : entries_) {
    if (entry->active && entry->clip.done()) {
      record_clip(set_.layers[entry->layer], set_.reports[entry->layer], entry->clip.report());
      entry->active = false;
    }
    any = any || entry->active;
    if (entry->active && !entry->clip.writes()) writing_ = false;
  }
  return any ? open_buckets() : finish_rounds();
}

// Layers whose turn it is, in their order, in buckets of a few megabytes of one group.
int ShardedStep::open_buckets() {
  open_ = 0;
  for (int group = 0; group < groups(); ++group) {
    std::int64_t bytes = kBucketBytes;  // the next layer opens a bucket
    for (const auto& entry : entries_) {
      const Layer& layer = set_.layers[entry->layer];
      if (!entry->active || layer.part.group != group || entry->clip.writes() != writing_) continue;
      if (bytes >= kBucketBytes) {
        open(open_, group);
        bytes = 0;
      }
      buckets_[open_ - 1].entries.push_back(entry.get());
      bytes += kColumnsAtLeast * 4 * std::max(set_.reports[entry->layer].rows, set_.reports[entry->layer].cols);
    }
  }
  return static_cast<int>(open_);
}

// The work on small matrices that follows a pass, of all layers side by side.
void ShardedStep::take_all(Executor& executor) {
  auto task = [&](std::int64_t i) {
    ShardedClip& clip = entries_[static_cast<std::size_t>(i)]->clip;
    if (entries_[static_cast<std::size_t>(i)]->active && (writing_ || !clip.writes())) clip.take();
  };
  executor.run(static_cast<std::int64_t>(entries_.size()), task);
}

// Large layers one after another with all threads inside, small ones side by side.
void ShardedStep::run_round(Bucket& bucket, Executor& executor) {
  if (writing_ && !whole_done_) clip_whole_layers(executor);
  constexpr std::int64_t kWideEntries = std::int64_t{1} << 20;
  const auto local_entries = [&](const Entry* entry) {
    return matrix_of(gradient_of(entry->layer), set_.layers[entry->layer], set_.reports[entry->layer]).entries();
  };
  const auto is_wide = [&](const Entry* entry) {
    return executor.concurrency() > 1 && local_entries(entry) > kWideEntries;
  };
  for (Entry* entry : bucket.entries)
    if (is_wide(entry)) entry->clip.run(workspaces_.wide().pass, executor);
  auto task = [&](std::int64_t i) {
    Entry* const entry = bucket.entries[static_cast<std::size_t>(i)];
    if (is_wide(entry)) return;
    const WorkspacePool::Lease workspace(workspaces_);
    entry->clip.run((*workspace).pass, serial_executor());
  };
  executor.run(static_cast<std::int64_t>(bucket.entries.size()), task);
  for (const Entry* entry : bucket.entries)
    for (const SumBlock& block : entry->clip.blocks())
      if (block.rows > 0) bucket.blocks.push_back(block);
}

namespace {
// Large layers one after another with all threads inside, small ones side by side.
template <class Work>
void for_each_of(std::span<const std::size_t> layers, const LayerSet& set, WorkspacePool& workspaces,
                 Executor& executor, const Work& work) {
  constexpr std::int64_t kWideEntries = std::int64_t{1} << 20;
  const auto is_wide = [&](std::size_t i) {
    return executor.concurrency() > 1 && set.reports[i].rows * set.reports[i].cols > kWideEntries;
  };
  for (const std::size_t i : layers)
    if (is_wide(i)) work(i, workspaces.wide(), executor);
  auto task = [&](std::int64_t at) {
    const std::size_t i = layers[static_cast<std::size_t>(at)];
    if (is_wide(i)) return;
    const WorkspacePool::Lease workspace(workspaces);
    work(i, *workspace, serial_executor());
  };
  executor.run(static_cast<std::int64_t>(layers.size()), task);
}
}  // namespace

void ShardedStep::clip_whole_layers(Executor& executor) {
  whole_done_ = true;
  whole_.clear();
  if (ranks_ > 1) {
    owners_ = owners_of(set_, ranks_);
    factors_.resize(set_.layers.size());
  }
  for (std::size_t i = 0; i < set_.layers.size(); ++i) {
    const bool own = ranks_ == 1 || set_.layers[i].part.split != Split::none || owners_[i] == rank_;
    if (runs_here(i) && own) whole_.push_back(i);
  }
  for_each_of(whole_, set_, workspaces_, executor, [&](std::size_t i, Workspace& workspace, Executor& inside) {
    ClipFactors* const factors = ranks_ > 1 ? &factors_[i] : nullptr;
    if (factors != nullptr) factors->clear();
    const AnyMatrix G = matrix_of(gradient_of(i), set_.layers[i], set_.reports[i]);
    clip_layer(set_.layers[i], set_.reports[i], G, workspace, inside, factors);
  });
}

std::vector<std::uint8_t> ShardedStep::share() const {
  std::vector<std::uint8_t> bytes;
  if (ranks_ == 1 || left_all_) return bytes;
  for (const std::size_t i : whole_)
    if (set_.layers[i].part.split == Split::none) write_shared(set_, i, factors_[i], bytes);
  return bytes;
}

void ShardedStep::take_share(std::span<const std::uint8_t> bytes, Executor& executor) {
  std::vector<SharedLayer> shared = read_shared(set_, bytes);
  std::vector<std::size_t> layers;
  std::vector<SharedLayer*> of_layer(set_.layers.size(), nullptr);
  for (SharedLayer& s : shared) {
    if (gradient_of(s.layer).data == nullptr || owners_.at(s.layer) == rank_) continue;
    layers.push_back(s.layer);
    of_layer[s.layer] = &s;
  }
  for_each_of(layers, set_, workspaces_, executor, [&](std::size_t i, Workspace&, Executor& inside) {
    apply_factors(matrix_of(gradient_of(i), set_.layers[i], set_.reports[i]), of_layer[i]->factors, inside);
    record_clip(set_.layers[i], set_.reports[i], of_layer[i]->report);
    set_.layers[i].subspace = std::move(of_layer[i]->subspace);
  });
}

int ShardedStep::finish_rounds() { return start(Stage::matrices); }

std::int64_t ShardedStep::bytes() const noexcept {
  std::size_t sum = 0;
  for (const auto& entry : entries_) sum += entry->basis.bytes();
  return static_cast<std::int64_t>(sum);
}

// ---- matrices that lie whole on one rank each: everybody hears what became of them

void ShardedStep::fill_matrices() {
  matrix_rows_.clear();
  for (std::size_t i = 0; i < set_.layers.size(); ++i) {
    if (set_.layers[i].part.split != Split::matrices) continue;
    const std::size_t at = matrix_rows_.size();
    matrix_rows_.resize(at + kReportNumbers, 0.0);
    if (runs_here(i)) write_report(set_.reports[i].clip, matrix_rows_.data() + at);
  }
}

void ShardedStep::take_matrices() {
  const double* row = matrix_rows_.data();
  for (std::size_t i = 0; i < set_.layers.size(); ++i) {
    if (set_.layers[i].part.split != Split::matrices) continue;
    if (!runs_here(i) && row[0] == 1) record_clip(set_.layers[i], set_.reports[i], read_report(row));
    row += kReportNumbers;
  }
}

}  // namespace spectralclip
