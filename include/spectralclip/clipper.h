// SPDX-License-Identifier: Apache-2.0
// Many named matrices, each with its own threshold and subspace, clipped in one step() over all of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "spectralclip/executor.h"
#include "spectralclip/export.h"
#include "spectralclip/matrix.h"
#include "spectralclip/options.h"
#include "spectralclip/reduction.h"
#include "spectralclip/report.h"
#include "spectralclip/rules.h"
#include "spectralclip/threshold.h"

namespace spectralclip {

enum class OnNonFinite : std::uint8_t {
  leave_layer = 0,  // the layer with NaN or Inf is left alone and named in the report; the others are clipped
  leave_all = 1     // one more read first; if any layer is not finite nothing is touched at all
};

struct ClipperOptions {
  ThresholdOptions threshold = {};
  ClipOptions clip = {};
  std::vector<Rule> rules = {};  // tried before default_rules()
  OnNonFinite on_nonfinite = OnNonFinite::leave_layer;
  bool observe_only = false;  // thresholds learn, reports are filled, no gradient is written
};

// One parameter's gradient in this step. data == nullptr: no gradient, the layer does not advance.
// Row-major; row_stride 0 means packed. The matrices of a batch follow each other at rows * row_stride. Of a parameter
// that is split over ranks: the local part; where that is empty, any address that is not null says there is a gradient.
struct Gradient {
  void* data = nullptr;
  ScalarType type = ScalarType::float32;
  std::int64_t row_stride = 0;
};

// One matrix of one parameter; "name[3]" when a rule made several of it.
struct LayerReport {
  std::string name;
  std::size_t parameter = 0;  // position in the list of parameters
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  Treatment treatment = Treatment::spectral;
  std::string rule;       // label of the rule that applied
  std::string hint = {};  // what about this layer may not be meant; empty mostly
  bool has_gradient = false;
  std::int64_t steps = 0;          // gradients seen by this layer
  std::int64_t steps_clipped = 0;  // … and how many of them were clipped
  ClipReport clip;                 // of the latest step
};

struct StepReport {
  std::int64_t step = 0;  // 1 for the first
  double total_norm = 0;  // before clipping, over all layers with a finite gradient, skipped ones included
  double norm_after = 0;
  std::int64_t layers_clipped = 0;
  std::int64_t layers_not_finite = 0;
  std::int64_t layers_rank_exhausted = 0;
  std::int64_t layers_not_converged = 0;
  std::int64_t layers_out_of_range = 0;
  std::int64_t layers_out_of_memory = 0;
  bool left_all = false;                // OnNonFinite::leave_all found a non-finite layer: nothing was touched
  std::span<const LayerReport> layers;  // valid until the next step
};

class SPECTRALCLIP_EXPORT Clipper {
 public:
  // Names must be unique after normalized_name(). Throws InvalidArgument on bad options or shapes.
  explicit Clipper(std::vector<Parameter> parameters, ClipperOptions options = {});
  ~Clipper();
  Clipper(Clipper&&) noexcept;
  Clipper& operator=(Clipper&&) noexcept;

  // gradients[i] belongs to parameters[i]. After the first step nothing is allocated (a rank that grows excepted).
  // Throws before anything is written or not at all: a layer for which memory runs out later on is left as it was, and
  // says so (ClipStatus::out_of_memory), like one that is not finite.
  StepReport step(std::span<const Gradient> gradients, Executor& executor);
  StepReport step(std::span<const Gradient> gradients);  // on a pool of our own, one thread per core

  // The same where parameters are split over ranks (Parameter::shard), all of them over those of `reduction`, whatever
  // their group: every rank calls it with its parts. Thresholds and reports (of the whole matrices) are equal on all
  // ranks. Throws RanksDisagree on every rank, with nothing written, when names, options, states or the presence of a
  // gradient differ, and what `reduction` throws.
  StepReport step(std::span<const Gradient> gradients, Reduction& reduction, Executor& executor);

  // One parameter's gradient alone, as soon as it is there (a hook inside backward): the layers of that parameter
  // advance, all others and steps() stay as they are. On not finite that layer is left alone, whatever on_nonfinite
  // says.
  void step_parameter(std::size_t parameter, const Gradient& gradient, Executor& executor);
  // Further parameters at the end of the list; their thresholds and subspaces start now. Throws as the constructor
  // does.
  void add(const std::vector<Parameter>& parameters);

  [[nodiscard]] std::span<const LayerReport> layers() const noexcept;
  [[nodiscard]] std::int64_t steps() const noexcept;
  [[nodiscard]] std::int64_t state_bytes() const noexcept;      // what a checkpoint holds
  [[nodiscard]] std::int64_t workspace_bytes() const noexcept;  // scratch of all threads together

  // Versioned, checksummed bytes; the file is written atomically (the old one survives any failure).
  [[nodiscard]] std::vector<std::uint8_t> serialize() const;
  void deserialize(std::span<const std::uint8_t> bytes);  // throws StateFileError, the clipper stays as it was
  void save(const std::string& path) const;
  void load(const std::string& path);
  // What the latest deserialize() or load() could not take over as it was: a threshold of another kind or with other
  // settings uses what it can of the saved past. A line for each difference, naming layers; empty when nothing was
  // lost.
  [[nodiscard]] std::span<const std::string> load_notes() const noexcept;

 private:
  friend struct ClipperInternals;  // src/clipper/internals.h: for adapters of this tree
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace spectralclip
