// SPDX-License-Identifier: Apache-2.0
#include "clipper/schedule.h"

#include <algorithm>
#include <new>
#include <numeric>

namespace spectralclip {

Schedule::Schedule(std::span<const std::int64_t> entries) : order_(entries.size()) {
  std::iota(order_.begin(), order_.end(), std::size_t{0});
  std::stable_sort(order_.begin(), order_.end(), [&](std::size_t a, std::size_t b) { return entries[a] > entries[b]; });
  for (const std::size_t layer : order_) sorted_entries_.push_back(entries[layer]);
  total_ = std::accumulate(entries.begin(), entries.end(), std::int64_t{0});
}

std::size_t Schedule::wide_layers(int concurrency) const noexcept {
  if (concurrency <= 1) return 0;
  const std::int64_t limit = total_ / (4 * std::int64_t{concurrency});
  const auto first_narrow = std::partition_point(sorted_entries_.begin(), sorted_entries_.end(),
                                                 [&](std::int64_t entries) { return entries > limit; });
  return static_cast<std::size_t>(first_narrow - sorted_entries_.begin());
}

void WorkspacePool::add() {
  free_.reserve(all_.size() + 1);
  all_.push_back(std::make_unique<Workspace>());
  free_.push_back(all_.back().get());
}

void WorkspacePool::provide(int concurrency) {
  while (all_.size() < static_cast<std::size_t>(std::max(concurrency, 1))) add();
}

Workspace* WorkspacePool::acquire() {
  const std::lock_guard lock(mutex_);
  if (free_.empty()) add();
  Workspace* const workspace = free_.back();
  free_.pop_back();
  return workspace;
}

void WorkspacePool::release(Workspace* workspace) noexcept {
  const std::lock_guard lock(mutex_);
  free_.push_back(workspace);
}

void WorkspacePool::level() noexcept {
  try {
    for (const auto& workspace : all_) all_.front()->level(*workspace);
    for (const auto& workspace : all_) workspace->level(*all_.front());
  } catch (const std::bad_alloc&) {
    return;  // the step is done; the next one asks for memory where it needs it
  }
}

std::int64_t WorkspacePool::bytes() const noexcept {
  std::size_t sum = wide_.bytes();
  for (const auto& workspace : all_) sum += workspace->bytes();
  return static_cast<std::int64_t>(sum);
}

}  // namespace spectralclip
