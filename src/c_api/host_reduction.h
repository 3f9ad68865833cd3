// SPDX-License-Identifier: Apache-2.0
// The host's sums over processes as a Reduction: blocks of one type travel as one run of numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "spectralclip/c_api.h"
#include "spectralclip/error.h"
#include "spectralclip/reduction.h"

namespace spectralclip::c_api {

class HostReduction final : public Reduction {
 public:
  explicit HostReduction(const sclip_reduction& host) : host_(host) {}

  void sum(std::span<const SumBlock> blocks) override {
    for (const ScalarType type : {ScalarType::float32, ScalarType::float64}) {
      const std::int64_t count = packed_count(blocks, type);
      if (count == 0) continue;
      run_.resize(static_cast<std::size_t>(count * size_of(type)));
      pack(blocks, type, run_.data());
      const auto code = host_.sum(host_.context, run_.data(), count, static_cast<std::int32_t>(type));
      if (code != 0) throw Error("the host's sum over processes failed with " + std::to_string(code));
      unpack(run_.data(), type, blocks);
    }
  }

 private:
  sclip_reduction host_;
  std::vector<std::byte> run_;
};

}  // namespace spectralclip::c_api
