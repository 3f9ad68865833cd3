// SPDX-License-Identifier: Apache-2.0
#include "subspace/workspace.h"

#include <utility>

namespace spectralclip {

Arena::Block Arena::reserve(std::size_t bytes) {
  used_ = 0;
  if (bytes <= size_) return nullptr;
  Block larger(static_cast<std::byte*>(::operator new (bytes, std::align_val_t{kAlignment})));
  block_.swap(larger);
  size_ = bytes;
  return larger;
}

}  // namespace spectralclip
