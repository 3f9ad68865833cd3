// SPDX-License-Identifier: Apache-2.0
#include "ops/sharded_object.h"

#include <ATen/ATen.h>
#include <torch/library.h>

#include <cstring>

#include "require.h"
#include "spectralclip/error.h"

namespace spectralclip::torch {
namespace {

template <class Work>
auto as_value_error(Work&& work) {
  try {
    return work();
  } catch (const InvalidArgument& error) {
    TORCH_CHECK_VALUE(false, error.what());
  }
}

std::vector<Parameter> described(const std::vector<std::string>& names,
                                 const std::vector<std::vector<std::int64_t>>& shapes,
                                 const std::vector<std::vector<std::int64_t>>& shards,
                                 const std::vector<SettingTexts>& own) {
  SPECTRALCLIP_REQUIRE(shapes.size() == names.size() && shards.size() == names.size() && own.size() == names.size(),
                       names.size(), " names, ", shapes.size(), " shapes, ", shards.size(), " shards and ", own.size(),
                       " lists of settings");
  std::vector<Parameter> list;
  for (std::size_t i = 0; i < names.size(); ++i) {
    SPECTRALCLIP_REQUIRE(shards[i].size() == 4, "a shard is (axis, extent, first, group)");
    list.push_back(parameter_from(names[i], shapes[i], own[i]));
    list.back().shard = {static_cast<int>(shards[i][0]), shards[i][1], shards[i][2], static_cast<int>(shards[i][3])};
  }
  return list;
}

at::Tensor bytes_of(const std::vector<std::uint8_t>& bytes) {
  at::Tensor tensor = at::empty({static_cast<std::int64_t>(bytes.size())}, at::kByte);
  if (!bytes.empty()) std::memcpy(tensor.data_ptr(), bytes.data(), bytes.size());
  return tensor;
}

}  // namespace

ShardedObject::ShardedObject(const std::vector<std::string>& names,
                             const std::vector<std::vector<std::int64_t>>& shapes,
                             const std::vector<std::vector<std::int64_t>>& shards, const std::vector<SettingTexts>& own,
                             const SettingTexts& settings, const std::vector<SettingTexts>& rules)
    : count_(names.size()), clipper_(described(names, shapes, shards, own), clipper_options(settings, rules)) {}

void ShardedObject::begin(const std::vector<at::Tensor>& gradients, const std::vector<std::int64_t>& numbers) {
  std::vector<at::Tensor> all(count_);
  for (std::size_t i = 0; i < numbers.size(); ++i) all.at(static_cast<std::size_t>(numbers[i])) = gradients.at(i);
  clipper_.begin(all);
}

void ShardedObject::add_parameters(const std::vector<std::string>& names,
                                   const std::vector<std::vector<std::int64_t>>& shapes,
                                   const std::vector<std::vector<std::int64_t>>& shards,
                                   const std::vector<SettingTexts>& own) {
  clipper_.add(described(names, shapes, shards, own));
  count_ += names.size();
}

ClipperObject::Report ShardedObject::report() const { return report_of(clipper_.report()); }

at::Tensor ShardedObject::serialize() const { return bytes_of(clipper_.serialize()); }

void ShardedObject::deserialize(const at::Tensor& bytes) {
  const at::Tensor packed = bytes.to(at::kCPU).contiguous();
  clipper_.deserialize({packed.const_data_ptr<std::uint8_t>(), static_cast<std::size_t>(packed.numel())});
}

void register_sharded(::torch::Library& m) {
  using Self = c10::intrusive_ptr<ShardedObject>;
  using Lists = std::vector<std::vector<std::int64_t>>;
  m.class_<ShardedObject>("ShardedClipper")
      .def(::torch::init([](const std::vector<std::string>& names, const Lists& shapes, const Lists& shards,
                            const std::vector<SettingTexts>& own, const SettingTexts& settings,
                            const std::vector<SettingTexts>& rules) {
        return as_value_error(
            [&] { return c10::make_intrusive<ShardedObject>(names, shapes, shards, own, settings, rules); });
      }))
      .def("begin", [](const Self& self, const std::vector<at::Tensor>& gradients,
                       const std::vector<std::int64_t>& numbers) { self->begin(gradients, numbers); })
      .def("next",
           [](const Self& self) { return as_value_error([&] { return std::int64_t{self->clipper().next()}; }); })
      .def("run",
           [](const Self& self, std::int64_t bucket) {
             const ShardedClipper::Sums sums = self->clipper().run(static_cast<int>(bucket));
             return std::make_tuple(sums.float32, sums.float64);
           })
      .def("give", [](const Self& self, std::int64_t bucket) { self->clipper().give(static_cast<int>(bucket)); })
      .def("group", [](const Self& self,
                       std::int64_t bucket) { return std::int64_t{self->clipper().group(static_cast<int>(bucket))}; })
      .def("share_work",
           [](const Self& self, std::int64_t rank, std::int64_t ranks) {
             self->clipper().share_work(static_cast<int>(rank), static_cast<int>(ranks));
           })
      .def("share", [](const Self& self) { return bytes_of(self->clipper().share()); })
      .def("take_share",
           [](const Self& self, const at::Tensor& bytes) {
             const at::Tensor packed = bytes.to(at::kCPU).contiguous();
             self->clipper().take_share(
                 {packed.const_data_ptr<std::uint8_t>(), static_cast<std::size_t>(packed.numel())});
           })
      .def("finish", [](const Self& self) { return self->clipper().finish(); })
      .def("written", [](const Self& self,
                         std::int64_t number) { return self->clipper().written(static_cast<std::size_t>(number)); })
      .def("add_parameters",
           [](const Self& self, const std::vector<std::string>& names, const Lists& shapes, const Lists& shards,
              const std::vector<SettingTexts>& own) {
             as_value_error([&] { self->add_parameters(names, shapes, shards, own); });
           })
      .def("report", [](const Self& self) { return self->report(); })
      .def("steps", [](const Self& self) { return self->clipper().steps(); })
      .def("serialize", [](const Self& self) { return self->serialize(); })
      .def("deserialize",
           [](const Self& self, const at::Tensor& bytes) { as_value_error([&] { self->deserialize(bytes); }); });
}

}  // namespace spectralclip::torch
