// SPDX-License-Identifier: Apache-2.0
#include "training/device.h"

#include <ATen/autocast_mode.h>

#include "require.h"
#include "spectralclip/torch/sixteen_bit.h"

namespace spectralclip::lab {

at::Device device_of(const Config& config) {
  try {
    const at::Device device(config.device);
    (void)at::empty({1}, at::TensorOptions(device));
    return device;
  } catch (const c10::Error& error) {
    throw InvalidArgument(detail::concat("device = \"", config.device, "\": ", error.what_without_backtrace()));
  }
}

void wait_for(const at::Device& device) {
  if (device.is_cuda()) ::torch::cuda::synchronize(device.index());
  if (device.is_mps()) ::torch::mps::synchronize();
}

Autocast::Autocast(const at::Device& device, const std::string& type) : device_(device.type()), on_(type != "none") {
  if (!on_) return;
  const std::string failure = device.is_cpu() ? spectralclip::torch::sixteen_bit_failure() : std::string();
  SPECTRALCLIP_REQUIRE(failure.empty(), "train.autocast = ", type, ": 16-bit products fail here (", failure,
                       "); `spectralclip doctor` says what helps");
  before_ = at::autocast::is_autocast_enabled(device_);
  at::autocast::set_autocast_dtype(device_, at::kBFloat16);
  at::autocast::set_autocast_enabled(device_, true);
}

Autocast::~Autocast() {
  if (!on_) return;
  at::autocast::clear_cache();
  at::autocast::set_autocast_enabled(device_, before_);
}

}  // namespace spectralclip::lab
