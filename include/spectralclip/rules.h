// SPDX-License-Identifier: Apache-2.0
// Which parameters are clipped, how, and as which matrices: data, in order, first match wins, visible per layer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "spectralclip/export.h"
#include "spectralclip/options.h"
#include "spectralclip/threshold.h"

namespace spectralclip {

enum class Treatment : std::uint8_t {
  spectral = 0,  // clamp singular values
  norm = 1,      // clamp the Frobenius norm (what C_tau does to a vector)
  skip = 2       // leave alone
};
[[nodiscard]] SPECTRALCLIP_EXPORT const char* to_string(Treatment treatment) noexcept;

// What a rank holds of a parameter that is split over ranks along one axis: `extent` indices of it. By the rule's
// reading of the axes that is a part of the rows or of the columns of each matrix (which ones does not matter to
// singular values, and none is legal), or, of a batch axis, whole matrices from `first` on.
struct Shard {
  int axis = -1;  // none: every rank holds all of it
  std::int64_t extent = 0;
  std::int64_t first = 0;  // of a batch axis
  int group = 0;           // layers of one group are split over the same ranks and summed together
};

// A parameter as the model knows it: a name and a shape, row-major, of all ranks together.
struct Parameter {
  std::string name;
  std::vector<std::int64_t> shape;
  // Settings of its own (a parameter group's), instead of the clipper's; those of a rule stand before them.
  std::optional<ThresholdOptions> threshold = {};
  std::optional<ClipOptions> clip = {};
  Shard shard = {};
};

struct Rule {
  std::string name_pattern = "*";  // glob over the whole name: * any run of characters, ? one character
  int min_dims = 0;                // matches parameters with min_dims <= shape.size() <= max_dims
  int max_dims = 1 << 20;
  Treatment treatment = Treatment::spectral;
  // How a tensor becomes matrices: the first `batch_axes` axes count matrices, the next `row_axes` axes are rows, the
  // rest columns. (o, i, kh, kw) with (0, 1): o x (i kh kw). (e, m, n) with (1, 1): e matrices of m x n.
  int batch_axes = 0;
  int row_axes = 1;
  std::optional<ThresholdOptions> threshold = {};  // instead of the clipper's own
  std::optional<ClipOptions> clip = {};
  std::string label = {};  // shown per layer: why this rule
};

// Skips embeddings and heads by the names the published clipper skips (LayerNorms inside embeddings excepted) and heads
// at the top of a model (head, classifier, output, embed_out); takes stacked experts (e, m, n) as e matrices; clips
// vectors by norm and everything else as (out, rest).
[[nodiscard]] SPECTRALCLIP_EXPORT std::vector<Rule> default_rules();

[[nodiscard]] SPECTRALCLIP_EXPORT bool glob_match(std::string_view pattern, std::string_view text) noexcept;

// A parameter after its rule: `count` matrices of rows x cols, packed one after another.
struct Matricized {
  std::int64_t count = 1;
  std::int64_t rows = 1;
  std::int64_t cols = 1;
};

// The first rule that matches; throws InvalidArgument naming the parameter when none does.
[[nodiscard]] SPECTRALCLIP_EXPORT const Rule& find_rule(const std::vector<Rule>& rules, const Parameter& parameter);
[[nodiscard]] SPECTRALCLIP_EXPORT Matricized matricize(const Rule& rule, const Parameter& parameter);

// Drops wrapper prefixes ("module.", "_orig_mod.", "_fsdp_wrapped_module.") anywhere in a name.
[[nodiscard]] SPECTRALCLIP_EXPORT std::string normalized_name(std::string_view name);

}  // namespace spectralclip
