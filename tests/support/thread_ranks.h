// SPDX-License-Identifier: Apache-2.0
// Threads that play ranks: a reduction that adds what all of them bring, in the order of ranks, so that all see the
// same bits. A rank that leaves early makes the others throw instead of waiting for ever.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "spectralclip/reduction.h"

namespace spectralclip::testing {

class ThreadRanks {
 public:
  explicit ThreadRanks(int ranks) : ranks_(ranks), parts_(static_cast<std::size_t>(ranks)) {}

  class Rank final : public Reduction {
   public:
    Rank(ThreadRanks& all, int rank) : all_(all), rank_(rank) {}
    int rank() const { return rank_; }
    void sum(std::span<const SumBlock> blocks) override {
      ++calls;
      for (const ScalarType type : {ScalarType::float32, ScalarType::float64}) {
        const std::int64_t count = packed_count(blocks, type);
        bytes += count * size_of(type);
        run_.resize(static_cast<std::size_t>(count * size_of(type)));
        pack(blocks, type, run_.data());
        all_.add_up(rank_, run_, type);
        unpack(run_.data(), type, blocks);
        if (poison && *poison == calls) throw std::runtime_error("this rank dies");
      }
    }
    std::int64_t calls = 0, bytes = 0;
    const std::int64_t* poison = nullptr;  // dies in this call

   private:
    ThreadRanks& all_;
    int rank_;
    std::vector<std::byte> run_;
  };

  // body(rank) on as many threads; the errors of all, empty where there was none.
  std::vector<std::string> run(const std::function<void(Rank&)>& body) {
    std::vector<std::string> errors(parts_.size());
    std::vector<std::thread> threads;
    for (int r = 0; r < ranks_; ++r) {
      threads.emplace_back([&, r] {
        Rank rank(*this, r);
        try {
          body(rank);
        } catch (const std::exception& error) {
          errors[static_cast<std::size_t>(r)] = error.what();
          leave();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    return errors;
  }

 private:
  void leave() {
    const std::lock_guard lock(mutex_);
    gone_ = true;
    changed_.notify_all();
  }
  void wait_for_all() {
    std::unique_lock lock(mutex_);
    const std::int64_t turn = turn_;
    if (++arrived_ == ranks_) {
      arrived_ = 0;
      ++turn_;
      changed_.notify_all();
      return;
    }
    changed_.wait(lock, [&] { return turn_ != turn || gone_; });
    if (turn_ == turn) throw std::runtime_error("another rank is gone");
  }
  void add_up(int rank, std::vector<std::byte>& run, ScalarType type) {
    parts_[static_cast<std::size_t>(rank)] = run;
    wait_for_all();
    for (const auto& part : parts_)
      if (part.size() != run.size()) throw std::runtime_error("ranks bring runs of different lengths");
    for (std::size_t r = 0; r < parts_.size(); ++r) {
      if (type == ScalarType::float64) add<double>(parts_[r], run, r == 0);
      if (type == ScalarType::float32) add<float>(parts_[r], run, r == 0);
    }
    wait_for_all();
  }
  template <class T>
  static void add(const std::vector<std::byte>& part, std::vector<std::byte>& sum, bool first) {
    const auto* from = reinterpret_cast<const T*>(part.data());
    auto* to = reinterpret_cast<T*>(sum.data());
    for (std::size_t i = 0; i < sum.size() / sizeof(T); ++i) to[i] = first ? from[i] : to[i] + from[i];
  }

  int ranks_;
  std::vector<std::vector<std::byte>> parts_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int arrived_ = 0;
  std::int64_t turn_ = 0;
  bool gone_ = false;
};

}  // namespace spectralclip::testing
