// SPDX-License-Identifier: Apache-2.0
// Every allocation of the process is counted, and may be made to fail: operator new in all its forms, and, with glibc
// and without a sanitizer in between, malloc and its kin (which Eigen uses). Included by one file of a test program.
#pragma once

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <new>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SPECTRALCLIP_TEST_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define SPECTRALCLIP_TEST_SANITIZED 1
#endif
#endif
#if defined(__GLIBC__) && !defined(SPECTRALCLIP_TEST_SANITIZED)
#define SPECTRALCLIP_TEST_COUNTS_MALLOC 1
#endif

namespace spectralclip::testing {

inline std::atomic<std::int64_t> allocations{0};
// How many more succeed; those that follow fail, `failures` of them.
inline constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();
inline std::atomic<std::int64_t> succeed{kNever};
inline std::atomic<std::int64_t> failures{0};
inline std::atomic<std::int64_t> failed{0};

inline bool refused() noexcept {
  ++allocations;
  if (succeed == kNever || succeed.fetch_sub(1) > 0) return false;
  if (failures.fetch_sub(1) <= 0) return false;
  ++failed;
  return true;
}

// While it lives, the allocation after `after` others fails, and `count - 1` more.
class FailingAllocations {
 public:
  explicit FailingAllocations(std::int64_t after, std::int64_t count = 1) {
    failed = 0;
    failures = count;
    succeed = after;
  }
  ~FailingAllocations() { succeed = kNever; }
  FailingAllocations(const FailingAllocations&) = delete;
  FailingAllocations& operator=(const FailingAllocations&) = delete;
};

}  // namespace spectralclip::testing

#ifdef SPECTRALCLIP_TEST_COUNTS_MALLOC
extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);
}
#endif

namespace {

void* unhooked_malloc(std::size_t bytes) {
#ifdef SPECTRALCLIP_TEST_COUNTS_MALLOC
  return __libc_malloc(bytes);
#else
  return std::malloc(bytes);
#endif
}
template <class Make>
void* counted(const Make& make) {
  void* const block = spectralclip::testing::refused() ? nullptr : make();
  if (block == nullptr) throw std::bad_alloc();
  return block;
}
void* aligned_block(std::size_t bytes, std::align_val_t alignment) {
  const auto unit = static_cast<std::size_t>(alignment);
#ifdef SPECTRALCLIP_TEST_COUNTS_MALLOC
  return __libc_memalign(unit, bytes);
#else
  return std::aligned_alloc(unit, (bytes + unit - 1) / unit * unit);
#endif
}
}  // namespace

// Not inlined: the compiler would see new as malloc and free as its mismatched partner.
#define SPECTRALCLIP_TEST_NEW [[gnu::noinline]] void*
SPECTRALCLIP_TEST_NEW operator new(std::size_t bytes) {
  return counted([&] { return unhooked_malloc(bytes == 0 ? 1 : bytes); });
}
SPECTRALCLIP_TEST_NEW operator new[](std::size_t bytes) {
  return counted([&] { return unhooked_malloc(bytes == 0 ? 1 : bytes); });
}
SPECTRALCLIP_TEST_NEW operator new(std::size_t bytes, std::align_val_t alignment) {
  return counted([&] { return aligned_block(bytes, alignment); });
}
SPECTRALCLIP_TEST_NEW operator new[](std::size_t bytes, std::align_val_t alignment) {
  return counted([&] { return aligned_block(bytes, alignment); });
}
SPECTRALCLIP_TEST_NEW operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return spectralclip::testing::refused() ? nullptr : unhooked_malloc(bytes == 0 ? 1 : bytes);
}
SPECTRALCLIP_TEST_NEW operator new[](std::size_t bytes, const std::nothrow_t&) noexcept {
  return spectralclip::testing::refused() ? nullptr : unhooked_malloc(bytes == 0 ? 1 : bytes);
}
[[gnu::noinline]] void operator delete(void* block) noexcept { std::free(block); }
[[gnu::noinline]] void operator delete[](void* block) noexcept { std::free(block); }
[[gnu::noinline]] void operator delete(void* block, std::size_t) noexcept { std::free(block); }
[[gnu::noinline]] void operator delete[](void* block, std::size_t) noexcept { std::free(block); }
[[gnu::noinline]] void operator delete(void* block, std::align_val_t) noexcept { std::free(block); }
[[gnu::noinline]] void operator delete[](void* block, std::align_val_t) noexcept { std::free(block); }
[[gnu::noinline]] void operator delete(void* block, std::size_t, std::align_val_t) noexcept { std::free(block); }
[[gnu::noinline]] void operator delete[](void* block, std::size_t, std::align_val_t) noexcept { std::free(block); }

#ifdef SPECTRALCLIP_TEST_COUNTS_MALLOC
extern "C" {
void* malloc(std::size_t bytes) { return spectralclip::testing::refused() ? nullptr : __libc_malloc(bytes); }
void* calloc(std::size_t count, std::size_t bytes) {
  return spectralclip::testing::refused() ? nullptr : __libc_calloc(count, bytes);
}
void* realloc(void* block, std::size_t bytes) {
  return spectralclip::testing::refused() ? nullptr : __libc_realloc(block, bytes);
}
void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
  return spectralclip::testing::refused() ? nullptr : __libc_memalign(alignment, bytes);
}
int posix_memalign(void** block, std::size_t alignment, std::size_t bytes) {
  *block = spectralclip::testing::refused() ? nullptr : __libc_memalign(alignment, bytes);
  return *block == nullptr ? ENOMEM : 0;
}
}
#endif
