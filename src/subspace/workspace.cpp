// SPDX-License-Identifier: Apache-2.0
#include "subspace/workspace.h"

namespace spectralclip {

void Workspace::reserve(std::size_t bytes) {
  used_ = 0;
  if (bytes <= size_) return;
  block_.reset();
  size_ = 0;
  block_.reset(static_cast<std::byte*>(::operator new (bytes, std::align_val_t{kAlignment})));
  size_ = bytes;
}

}  // namespace spectralclip
