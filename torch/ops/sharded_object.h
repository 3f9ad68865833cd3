// SPDX-License-Identifier: Apache-2.0
// The clipper of shards as an object of the Python package; python/spectralclip/distributed drives its rounds.
#pragma once

#include <torch/custom_class.h>

#include "ops/clipper_object.h"
#include "sharded/sharded_clipper.h"

namespace spectralclip::torch {

class ShardedObject final : public ::torch::CustomClassHolder {
 public:
  // shapes: of the whole parameters; shards: (axis, extent, first, group) for each, axis -1 where all of it is here.
  ShardedObject(const std::vector<std::string>& names, const std::vector<std::vector<std::int64_t>>& shapes,
                const std::vector<std::vector<std::int64_t>>& shards, const std::vector<SettingTexts>& own,
                const SettingTexts& settings, const std::vector<SettingTexts>& rules);

  void begin(const std::vector<at::Tensor>& gradients, const std::vector<std::int64_t>& numbers);
  [[nodiscard]] ShardedClipper& clipper() noexcept { return clipper_; }
  void add_parameters(const std::vector<std::string>& names, const std::vector<std::vector<std::int64_t>>& shapes,
                      const std::vector<std::vector<std::int64_t>>& shards, const std::vector<SettingTexts>& own);
  [[nodiscard]] ClipperObject::Report report() const;
  [[nodiscard]] at::Tensor serialize() const;
  void deserialize(const at::Tensor& bytes);

 private:
  std::size_t count_;
  ShardedClipper clipper_;
};

void register_sharded(::torch::Library& library);

}  // namespace spectralclip::torch
