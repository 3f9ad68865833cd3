// SPDX-License-Identifier: Apache-2.0
// bench_pass: milliseconds of the fused pass and of the update over the weight matrices of GPT-2, from memory, beside
// a plain read with the norm. Interleaved, order rotated from round to round, medians; ratios are taken within a round,
// so that slow drifts of a shared machine cancel.
//     bench_pass [rounds] [instruction set]
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernels/apply_right.h"
#include "kernels/fused_pass.h"
#include "kernels/norm.h"
#include "layer_set.h"
#include "spectralclip/version.h"
#include "timing.h"

namespace spectralclip::bench {
namespace {

// What k columns need beside a matrix of `cols` columns; one for every matrix under way.
class Columns {
 public:
  Columns(std::int64_t k, std::int64_t cols)
      : k_(k),
        Vt_(k, kernels::padded(cols)),
        Zt_(k, kernels::padded(cols)),
        scratch_(1, kernels::fused_pass_scratch<float>(k)),
        S_(static_cast<std::size_t>(k * k)),
        coefficient_(static_cast<std::size_t>(k)) {
    Vt_.map() = random_normal(k, kernels::padded(cols), 1, 1 / std::sqrt(static_cast<double>(cols)));
  }
  double pass(Buffer& G) {
    std::fill_n(Zt_.data(), k_ * kernels::padded(G.cols()), 0.0F);
    return kernels::fused_pass(kernels::FusedPass<float>{.G = G.data(),
                                                         .rows = G.rows(),
                                                         .cols = G.cols(),
                                                         .stride = G.cols(),
                                                         .Vt = Vt_.data(),
                                                         .k = k_,
                                                         .Zt = Zt_.data(),
                                                         .S = S_.data(),
                                                         .scratch = scratch_.data()});
  }
  // Coefficients are zero: the same work, and G stays what it was.
  double update(Buffer& G) {
    return kernels::apply_right(kernels::RightUpdate<float>{.G = G.data(),
                                                            .rows = G.rows(),
                                                            .cols = G.cols(),
                                                            .stride = G.cols(),
                                                            .Vt = Vt_.data(),
                                                            .c = k_,
                                                            .coefficient = coefficient_.data(),
                                                            .scratch = scratch_.data()});
  }

 private:
  std::int64_t k_;
  Buffer Vt_, Zt_, scratch_;
  std::vector<double> S_;
  std::vector<float> coefficient_;
};

struct Contender {
  std::string name;
  std::function<double(Buffer&, std::size_t)> run;  // of the set's i-th matrix
  std::vector<double> ms;
};

std::vector<Contender> make_contenders(const LayerSet& set) {
  std::vector<Contender> all;
  all.push_back({"plain read with norm",
                 [](Buffer& G, std::size_t) { return kernels::sum_of_squares(G.data(), G.entries()); },
                 {}});
  const auto add = [&](const std::string& name, std::int64_t k, double (Columns::*run)(Buffer&)) {
    auto columns = std::make_shared<std::vector<std::unique_ptr<Columns>>>();
    for (const Layer& layer : set.layers) {
      columns->push_back(std::make_unique<Columns>(k, layer.master[0].cols()));
    }
    all.push_back({name + std::to_string(k),
                   [columns, run](Buffer& G, std::size_t i) { return ((*columns)[i].get()->*run)(G); },
                   {}});
  };
  for (const std::int64_t k : {2, 4, 6, 8}) add("pass, k = ", k, &Columns::pass);
  for (const std::int64_t c : {1, 2, 3, 4}) add("update, c = ", c, &Columns::update);
  return all;
}

void measure(LayerSet& set, int threads, int rounds) {
  ThreadPool pool(threads);
  std::vector<Contender> contenders = make_contenders(set);
  std::vector<double> norms(set.layers.size());
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t turn = 0; turn < contenders.size(); ++turn) {
      Contender& contender = contenders[(turn + static_cast<std::size_t>(round)) % contenders.size()];
      auto task = [&](std::int64_t i) {
        const std::size_t at = set.largest_first[static_cast<std::size_t>(i)];
        norms[at] = contender.run(set.layers[at].master[0], at);
      };
      const auto count = static_cast<std::int64_t>(set.layers.size());
      contender.ms.push_back(milliseconds([&] { pool.run(count, task); }));
    }
  }
  std::printf("%d thread(s)\n", threads);
  for (const Contender& c : contenders) {
    std::printf("  %-22s %7.2f ms  MAD %5.2f  %5.2f x the read\n", c.name.c_str(), median(c.ms), median_deviation(c.ms),
                paired_ratio(c.ms, contenders[0].ms));
  }
}

}  // namespace
}  // namespace spectralclip::bench

int main(int argc, char** argv) try {
  using namespace spectralclip;
  constexpr int kRounds = 15;
  constexpr std::int64_t kBlocks = 12;
  const std::string wish = argc > 1 ? argv[1] : std::to_string(kRounds);
  const int rounds = std::atoi(wish.c_str());
  if (argc > 3 || rounds < 1 || std::to_string(rounds) != wish) {
    std::fputs("usage: bench_pass [rounds, 1 or more; 15] [instruction set; the widest]\n", stderr);
    return 2;
  }
  if (argc > 2) set_simd_target(argv[2]);
  ThreadPool all(2);
  bench::LayerSet set = bench::make_layer_set(kBlocks, all);
  std::printf("%s\n", kernels::chosen_target());
  for (const int threads : {1, 2}) bench::measure(set, threads, rounds);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "bench_pass: %s\n", error.what());
  return 2;
}
