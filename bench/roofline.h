// SPDX-License-Identifier: Apache-2.0
// The fused pass against the roofline: GF/s and GB/s achieved on the whole set (far larger than the caches) and on one
// block that stays in the second-level cache, beside the peaks of this machine measured in the same run.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "bandwidth.h"
#include "findings.h"
#include "kernels/fused_pass.h"
#include "layer_set.h"
#include "peak_flops.h"
#include "timing.h"

namespace spectralclip::bench {

// One matrix with the columns and sums of its pass.
class PassJob {
 public:
  PassJob(const Buffer& G, std::int64_t rows, std::int64_t k)
      : Vt_(k, kernels::padded(G.cols())),
        Zt_(k, kernels::padded(G.cols())),
        scratch_(1, kernels::fused_pass_scratch<float>(k)),
        S_(static_cast<std::size_t>(k * k)) {
    Vt_.map().setZero();
    Zt_.map().setZero();
    Vt_.map().leftCols(G.cols()) = random_normal(k, G.cols(), 1, 1 / std::sqrt(static_cast<double>(G.cols())));
    pass_ = {.G = G.data(),
             .rows = rows,
             .cols = G.cols(),
             .stride = G.cols(),
             .Vt = Vt_.data(),
             .k = k,
             .Zt = Zt_.data(),
             .S = S_.data(),
             .scratch = scratch_.data()};
  }
  double run() const { return kernels::fused_pass(pass_); }
  [[nodiscard]] double flops() const { return 4.0 * static_cast<double>(pass_.rows * pass_.cols * pass_.k); }
  [[nodiscard]] double bytes() const { return 4.0 * static_cast<double>(pass_.rows * pass_.cols); }

 private:
  Buffer Vt_, Zt_, scratch_;
  std::vector<double> S_;
  kernels::FusedPass<float> pass_;
};

struct Rate {
  double gflops = 0;
  double gbs = 0;
};

// Median over `tries` of running every job `repeats` times, jobs over the threads of the executor.
inline Rate measure_jobs(const std::vector<std::unique_ptr<PassJob>>& jobs, int repeats, int tries,
                         Executor& executor) {
  std::vector<double> sums(jobs.size()), ms;
  auto task = [&](std::int64_t i) {
    for (int r = 0; r < repeats; ++r) sums[static_cast<std::size_t>(i)] += jobs[static_cast<std::size_t>(i)]->run();
  };
  for (int i = 0; i < tries; ++i) {
    ms.push_back(milliseconds([&] { executor.run(static_cast<std::int64_t>(jobs.size()), task); }));
  }
  double flops = 0, bytes = 0;
  for (const auto& job : jobs) flops += repeats * job->flops(), bytes += repeats * job->bytes();
  return {flops / median(ms) * 1e-6, bytes / median(ms) * 1e-6};
}

inline void run_roofline(const LayerSet& set, const std::vector<int>& threads, int tries, Results& results) {
  for (const int count : threads) {
    ThreadPool pool(count);
    show_progress("roofline, " + std::to_string(count) + " thread(s)");
    const double peak = measure_peak_gflops(pool);
    const double read = measure_bandwidth(set, pool).read_gbs;
    results.add({"peak of multiply-adds on registers", count, peak, "GF/s", {}, results.machine.simd});
    for (const std::int64_t k : {8, 16}) {
      std::vector<std::unique_ptr<PassJob>> cold, cached;
      for (const std::size_t i : set.largest_first) {
        const Buffer& G = set.layers[i].master[0];
        cold.push_back(std::make_unique<PassJob>(G, G.rows(), k));
      }
      constexpr std::int64_t kCachedRows = 64;  // 192 KiB of a 768-column layer per thread
      for (int t = 0; t < count; ++t) {
        cached.push_back(std::make_unique<PassJob>(
            set.layers[static_cast<std::size_t>(4 * t) % set.layers.size()].master[0], kCachedRows, k));
      }
      const double bound = std::min(peak, static_cast<double>(k) * read);  // k flops per byte
      const auto report = [&](const char* where, const Rate& rate, double limit, const std::string& against) {
        results.add({"fused pass, k = " + std::to_string(k) + ", " + where,
                     count,
                     rate.gflops,
                     "GF/s",
                     {},
                     number(rate.gbs) + " GB/s; " + number(100 * rate.gflops / limit) + " % of " + against});
      };
      report("from memory", measure_jobs(cold, 1, tries, pool), bound,
             "the roof min(" + number(peak) + " GF/s, k x " + number(read) + " GB/s)");
      report("from L2", measure_jobs(cached, 500, tries, pool), peak, "the peak");
    }
  }
}

}  // namespace spectralclip::bench
