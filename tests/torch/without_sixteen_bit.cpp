// SPDX-License-Identifier: Apache-2.0
// LD_PRELOAD of a processor whose 16-bit products end the process: at::mm of such matrices raises SIGILL, unless
// ONEDNN_MAX_CPU_ISA is what SPECTRALCLIP_TEST_CURE names (unset: whatever it is).
#include <ATen/core/Tensor.h>
#include <ATen/ops/mm_ops.h>
#include <dlfcn.h>
#include <signal.h>

#include <cstdlib>
#include <string_view>

namespace {

bool cured() {
  const char* const cure = std::getenv("SPECTRALCLIP_TEST_CURE");
  const char* const set = std::getenv("ONEDNN_MAX_CPU_ISA");
  return cure != nullptr && set != nullptr && std::string_view(cure) == set;
}

}  // namespace

at::Tensor at::_ops::mm::call(const at::Tensor& A, const at::Tensor& B) {
  using Call = at::Tensor (*)(const at::Tensor&, const at::Tensor&);
  static const auto next = reinterpret_cast<Call>(::dlsym(RTLD_NEXT, "_ZN2at4_ops2mm4callERKNS_6TensorES4_"));
  if ((A.scalar_type() == at::kBFloat16 || A.scalar_type() == at::kHalf) && !cured()) ::raise(SIGILL);
  return next(A, B);
}
