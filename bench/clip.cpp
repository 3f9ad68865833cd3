// SPDX-License-Identifier: Apache-2.0
// The benchmark behind the README's table: one run, interleaved, medians and ratios to norm clipping of the same
// matrices. Verifies, then times, then says what missed its bar.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "clip.h"
#include "dense.h"
#include "findings.h"
#include "growth.h"
#include "hard.h"
#include "layer_set.h"
#include "roofline.h"
#include "set_run.h"
#include "spectralclip/version.h"

namespace spectralclip::bench {
namespace {

constexpr const char* kSections[] = {"set", "gram", "growth", "roofline", "worst", "gaps", "cost"};
constexpr const char* kHelp =
    "usage: bench_clip [--threads 1,2] [--rounds 15] [--only SECTION,...] [--target AVX2] [--quick] [--json FILE]\n"
    "  --threads  thread counts to compare, ascending\n"
    "  --rounds   interleaved rounds over the set\n"
    "  --only     of: set (norm clipping, tracked, sketched), gram (against a full SVD), growth (4096 x 4096),\n"
    "             roofline (fused pass against the machine's peaks), worst (flat spectra at tau in every layer),\n"
    "             gaps (passes where little stands out), cost (the model by which auto chooses, both sides)\n"
    "  --target   the instruction set of the kernels, of those this processor has; the widest by default\n"
    "  --quick    a quarter of the layers and three rounds: does it run, not how fast\n"
    "  --json     everything measured, raw times included\n";

struct Options {
  std::vector<int> threads = {1, 2};
  int rounds = 15;
  std::vector<std::string> only = {std::begin(kSections), std::end(kSections)};
  bool quick = false;
  std::string json = {};

  [[nodiscard]] bool wants(const char* section) const {
    return std::find(only.begin(), only.end(), section) != only.end();
  }
};

std::vector<std::string> split(const std::string& list) {
  std::vector<std::string> parts(1);
  for (const char c : list) {
    if (c == ',') {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

int parse_count(const std::string& text) {
  std::size_t used = 0;
  const int value = std::stoi(text, &used);
  if (used != text.size() || value < 1 || value > 1024)
    throw std::invalid_argument("'" + text + "' is not in 1 to 1024");
  return value;
}

std::vector<std::string> parse_sections(const std::string& list) {
  for (const std::string& name : split(list)) {
    if (std::find(std::begin(kSections), std::end(kSections), name) == std::end(kSections)) {
      throw std::invalid_argument("unknown section '" + name + "'\n" + kHelp);
    }
  }
  return split(list);
}

Options parse(int argc, char** argv) {
  Options options;
  bool rounds_given = false;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    const auto value = [&]() -> std::string {
      if (i + 1 >= argc) throw std::invalid_argument(std::string(argument) + " needs a value\n" + kHelp);
      return argv[++i];
    };
    if (argument == "-h" || argument == "--help") {
      std::fputs(kHelp, stdout);
      std::exit(EXIT_SUCCESS);
    } else if (argument == "--threads") {
      options.threads.clear();
      for (const std::string& part : split(value())) options.threads.push_back(parse_count(part));
      std::sort(options.threads.begin(), options.threads.end());
    } else if (argument == "--rounds") {
      options.rounds = parse_count(value());
      rounds_given = true;
    } else if (argument == "--only") {
      options.only = parse_sections(value());
    } else if (argument == "--quick") {
      options.quick = true;
    } else if (argument == "--target") {
      set_simd_target(value());
    } else if (argument == "--json") {
      options.json = value();
    } else {
      throw std::invalid_argument("unknown argument '" + std::string(argument) + "'\n" + kHelp);
    }
  }
  if (options.quick && !rounds_given) options.rounds = 3;
  return options;
}

void run_on_set(const Options& options, Executor& all, Results& results) {
  show_progress("making gradients");
  const LayerSet set = make_layer_set(options.quick ? 3 : 12, all);
  results.set = std::to_string(set.layers.size()) + " matrices of GPT-2 124M, " +
                number(static_cast<double>(set.entries()) * 1e-6) + " M float32, " + std::to_string(options.rounds) +
                " rounds" + (options.quick ? " (--quick: not for comparison)" : "");
  if (options.wants("set")) run_set(set, options.threads, options.rounds, all, results);
  if (options.wants("roofline")) run_roofline(set, options.threads, options.rounds, results);
}

int run(const Options& options) {
  Results results;
  ThreadPool all;  // for making, restoring and verifying
  if (options.wants("set") || options.wants("roofline")) run_on_set(options, all, results);
  if (options.wants("gram")) run_dense(options.quick ? 1 : 3, results);
  if (options.wants("growth")) run_growth(options.threads, options.rounds, all, results);
  if (options.wants("worst")) run_worst(options.threads, options.rounds, all, results);
  if (options.wants("gaps")) run_gaps(results);
  if (options.wants("cost")) run_cost(options.rounds, results);
  end_progress();
  print_markdown(results);
  if (!options.json.empty()) write_json(results, options.json);
  return results.failures.empty() ? EXIT_SUCCESS : EXIT_FAILURE;
}

}  // namespace

int clip_benchmark(int argc, char** argv) try { return run(parse(argc, argv)); } catch (const std::exception& error) {
  std::fprintf(stderr, "bench_clip: %s\n", error.what());
  return EXIT_FAILURE;
}

}  // namespace spectralclip::bench
