// SPDX-License-Identifier: Apache-2.0
// Names of the backends.
#include "require.h"
#include "spectralclip/torch/clipper.h"

namespace spectralclip::torch {

const char* to_string(Backend backend) noexcept {
  return backend == Backend::automatic ? "auto" : backend == Backend::core ? "core" : "aten";
}

Backend parse_backend(std::string_view name) {
  for (const Backend backend : {Backend::automatic, Backend::core, Backend::aten}) {
    if (name == to_string(backend)) return backend;
  }
  throw InvalidArgument(detail::concat("backend \"", name, "\" is none of auto, core, aten"));
}

}  // namespace spectralclip::torch
