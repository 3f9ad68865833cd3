// SPDX-License-Identifier: Apache-2.0
// Which layer runs where: largest first; the few that would leave threads idle run one at a time with all threads
// inside, the others one per task. Only time depends on it, never a result.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "spectralclip/executor.h"
#include "subspace/workspace.h"

namespace spectralclip {

class Schedule {
 public:
  explicit Schedule(std::span<const std::int64_t> entries);  // per layer

  [[nodiscard]] std::span<const std::size_t> order() const noexcept { return order_; }  // layers, largest first
  // How many of order() run one at a time: those above total / (4 * concurrency) entries.
  [[nodiscard]] std::size_t wide_layers(int concurrency) const noexcept;

 private:
  std::vector<std::size_t> order_;
  std::vector<std::int64_t> sorted_entries_;
  std::int64_t total_ = 0;
};

// Scratch for a step: one block for the wide layers and one for each thread that takes whole layers.
class WorkspacePool {
 public:
  void provide(int concurrency);  // at least this many
  // All blocks of the threads become as large as the largest: which thread meets which layer is chance, and the next
  // step must not allocate.
  void level() noexcept;
  [[nodiscard]] std::int64_t bytes() const noexcept;

  [[nodiscard]] Workspace& wide() noexcept { return wide_; }

  // Borrows a block for the life of the object. More borrowers than provide() foresaw get a new block.
  class Lease {
   public:
    explicit Lease(WorkspacePool& pool) : pool_(pool), workspace_(pool.acquire()) {}
    ~Lease() { pool_.release(workspace_); }
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    [[nodiscard]] Workspace& operator*() const noexcept { return *workspace_; }

   private:
    WorkspacePool& pool_;
    Workspace* workspace_;
  };

 private:
  Workspace* acquire();
  void release(Workspace* workspace) noexcept;
  void add();

  std::mutex mutex_;
  Workspace wide_;
  std::vector<std::unique_ptr<Workspace>> all_;
  std::vector<Workspace*> free_;  // capacity for all_: release() never allocates
};

// work(layer, workspace, executor) for each layer of the schedule.
template <class Work>
void for_each_layer(const Schedule& schedule, WorkspacePool& workspaces, Executor& executor, const Work& work) {
  const auto order = schedule.order();
  const std::size_t wide = schedule.wide_layers(executor.concurrency());
  for (const std::size_t layer : order.first(wide)) work(layer, workspaces.wide(), executor);
  const auto narrow = order.subspan(wide);
  auto task = [&](std::int64_t i) {
    const WorkspacePool::Lease workspace(workspaces);
    work(narrow[static_cast<std::size_t>(i)], *workspace, serial_executor());
  };
  executor.run(static_cast<std::int64_t>(narrow.size()), task);
}

}  // namespace spectralclip
