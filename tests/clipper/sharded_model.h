// SPDX-License-Identifier: Apache-2.0
// The toy model cut into shards: along one axis of each parameter, at the places that `cuts` says in shares of it.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "clipper/toy_model.h"

namespace spectralclip::testing {

// Where the ranks' shares of an axis end; one more rank than cuts.
using Cuts = std::vector<double>;

struct LocalShard {
  std::vector<std::uint8_t> bytes;  // packed
  Parameter parameter;
};

// A parameter as rows of `inner` entries behind the axis and `outer` before it.
struct AxisView {
  std::int64_t outer = 1, extent = 1, inner = 1;
  AxisView(const std::vector<std::int64_t>& shape, int axis) {
    for (std::size_t i = 0; i < shape.size(); ++i) {
      const auto at = static_cast<int>(i);
      (at < axis ? outer : at == axis ? extent : inner) *= shape[i];
    }
  }
};

class ShardedModel {
 public:
  // The tensors of `model` must be packed; axes[i]: of parameter i, -1 for whole ones.
  ShardedModel(const ToyModel& model, std::vector<int> axes, const Cuts& cuts, int rank)
      : axes_(std::move(axes)), cuts_(cuts), rank_(rank) {
    for (std::size_t p = 0; p < model.tensors.size(); ++p) {
      Parameter parameter = model.tensors[p].parameter;
      if (axes_[p] >= 0) {
        const auto [first, end] = range(parameter, p);
        parameter.shard = {.axis = axes_[p], .extent = end - first, .first = first};
      }
      shards.push_back({{}, parameter});
    }
  }

  [[nodiscard]] std::vector<Parameter> parameters() const {
    std::vector<Parameter> list;
    for (const LocalShard& shard : shards) list.push_back(shard.parameter);
    return list;
  }

  void take_from(const ToyModel& model) { copy(model, nullptr); }
  void give_to(ToyModel& model) { copy(model, &model); }

  [[nodiscard]] std::vector<Gradient> gradients(const ToyModel& model) {
    static std::uint8_t nothing;
    std::vector<Gradient> list;
    for (std::size_t p = 0; p < shards.size(); ++p)
      list.push_back({shards[p].bytes.empty() ? &nothing : shards[p].bytes.data(), model.tensors[p].type, 0});
    return list;
  }

  std::vector<LocalShard> shards;

 private:
  [[nodiscard]] std::pair<std::int64_t, std::int64_t> range(const Parameter& parameter, std::size_t p) const {
    const auto extent = static_cast<double>(parameter.shape[static_cast<std::size_t>(axes_[p])]);
    const auto at = [&](int cut) {
      if (cut < 0) return std::int64_t{0};
      const double share = cut < static_cast<int>(cuts_.size()) ? cuts_[static_cast<std::size_t>(cut)] : 1.0;
      return static_cast<std::int64_t>(std::lround(share * extent));
    };
    return {at(rank_ - 1), at(rank_)};
  }
  void copy(const ToyModel& model, ToyModel* to) {
    for (std::size_t p = 0; p < shards.size(); ++p) {
      const ToyModel::Tensor& tensor = model.tensors[p];
      const int axis = std::max(axes_[p], 0);
      const AxisView view(tensor.parameter.shape, axis);
      const Shard& shard = shards[p].parameter.shard;
      const std::int64_t first = axes_[p] >= 0 ? shard.first : 0, count = axes_[p] >= 0 ? shard.extent : view.extent;
      const std::int64_t unit = view.inner * size_of(tensor.type);
      if (to == nullptr) shards[p].bytes.resize(static_cast<std::size_t>(view.outer * count * unit));
      for (std::int64_t o = 0; o < view.outer; ++o) {
        const std::int64_t whole = (o * view.extent + first) * unit, local = o * count * unit;
        if (to == nullptr) {
          std::copy_n(tensor.bytes.data() + whole, count * unit, shards[p].bytes.data() + local);
        } else {
          std::copy_n(shards[p].bytes.data() + local, count * unit, to->tensors[p].bytes.data() + whole);
        }
      }
    }
  }

  std::vector<int> axes_;
  Cuts cuts_;
  int rank_;
};

}  // namespace spectralclip::testing
