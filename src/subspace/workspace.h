// SPDX-License-Identifier: Apache-2.0
// Scratch of one thread: growing blocks, cut into aligned pieces. Booked by the first step, then only reused.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

namespace spectralclip {

class Arena {
  static constexpr std::size_t kAlignment = 64;
  struct AlignedDelete {
    void operator()(std::byte* block) const noexcept { ::operator delete (block, std::align_val_t{kAlignment}); }
  };

 public:
  // Makes room for `bytes` and starts over: earlier pieces are void. Allocates only when the block is too small.
  void reserve(std::size_t bytes) {
    used_ = 0;
    if (bytes <= size_) return;
    block_.reset(static_cast<std::byte*>(::operator new (bytes, std::align_val_t{kAlignment})));
    size_ = bytes;
  }
  [[nodiscard]] std::size_t bytes() const noexcept { return size_; }

  // The next 64-byte aligned piece of `count` T; reserve() must have made room for it.
  template <class T>
  [[nodiscard]] T* take(std::int64_t count) noexcept {
    T* piece = reinterpret_cast<T*>(block_.get() + used_);
    used_ += padded_bytes<T>(count);
    return piece;
  }
  template <class T>
  [[nodiscard]] static constexpr std::size_t padded_bytes(std::int64_t count) noexcept {
    return (static_cast<std::size_t>(count) * sizeof(T) + kAlignment - 1) / kAlignment * kAlignment;
  }

 private:
  std::unique_ptr<std::byte, AlignedDelete> block_;
  std::size_t size_ = 0;
  std::size_t used_ = 0;
};

struct Workspace {
  Arena basis;  // what a search holds from pass to pass
  Arena pass;   // what one pass or update over a matrix needs while it runs

  [[nodiscard]] std::size_t bytes() const noexcept { return basis.bytes() + pass.bytes(); }
  void level(const Workspace& other) {  // at least as large as the other one
    basis.reserve(std::max(basis.bytes(), other.basis.bytes()));
    pass.reserve(std::max(pass.bytes(), other.pass.bytes()));
  }
};

}  // namespace spectralclip
