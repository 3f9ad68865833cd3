// SPDX-License-Identifier: Apache-2.0
// Where a network trains, and in which type its products are taken.
#pragma once

#include <torch/torch.h>

#include <string>

#include "config/config.h"

namespace spectralclip::lab {

// Throws InvalidArgument when LibTorch has no such device here.
[[nodiscard]] at::Device device_of(const Config& config);
// Waits for a device that works by itself, so that clocks say the truth; nothing on the CPU.
void wait_for(const at::Device& device);

// Matrix products in bfloat16 while it lives. On the CPU after the probe of sixteen_bit.h; throws InvalidArgument where
// they do not work.
class Autocast {
 public:
  Autocast(const at::Device& device, const std::string& type);
  ~Autocast();
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  at::DeviceType device_;
  bool on_, before_ = false;
};

}  // namespace spectralclip::lab
