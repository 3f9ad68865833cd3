// SPDX-License-Identifier: Apache-2.0
#include "report/collect.h"

#include <fmt/core.h>

#include <filesystem>
#include <set>

#include "report/jsonl.h"
#include "report/read_run.h"
#include "spectralclip/error.h"

namespace spectralclip::lab::report {
namespace {

namespace fs = std::filesystem;
constexpr int kDepth = 4;  // DIR/<name>/seed-<N> needs two; a folder of sweeps with best/seed-<N> three

bool is_present(const fs::path& path) {
  std::error_code unreadable;  // counts as absent
  return fs::exists(path, unreadable);
}

class Collector {
 public:
  explicit Collector(const CollectOptions& options) : options_(options) {}

  void collect(const std::string& directory) {
    std::error_code ignored;
    if (!fs::is_directory(directory, ignored))
      throw InvalidArgument(fmt::format("report: {} is not a directory", directory));
    const std::size_t warnings_before = found_.warnings.size();
    runs_here_ = 0;
    visit(directory, kDepth);
    if (runs_here_ > 0) return;
    std::string reason =
        fmt::format("report: no run or sweep in {}: no summary.json down to {} levels below it", directory, kDepth);
    for (std::size_t i = warnings_before; i < found_.warnings.size(); ++i) reason += "; " + found_.warnings[i];
    throw InvalidArgument(reason);
  }

  Collection take() { return std::move(found_); }

 private:
  void visit(const fs::path& directory, int depth) {
    const bool trials = is_present(directory / "trials.jsonl");
    const bool summarised = is_present(directory / "summary.json");
    const auto summary = read_object((directory / "summary.json").string());
    if (trials || (summary && text_in(*summary, "kind") == "sweep")) return add_sweep(directory, depth);
    if (summary) add_run(directory, *summary, {});  // and on: what lies below it is shown, too
    if (summarised && !summary)
      found_.warnings.push_back((directory / "summary.json").string() + " is damaged: this run is left out");
    if (depth > 0)
      for (const fs::path& below : folders_in(directory)) visit(below, depth - 1);
  }

  std::vector<fs::path> folders_in(const fs::path& directory) {
    std::set<fs::path> folders;  // sorted: the same page on every file system
    std::error_code error;
    for (auto entry = fs::directory_iterator(directory, error); !error && entry != fs::directory_iterator();
         entry.increment(error)) {
      std::error_code ignored;
      if (entry->is_directory(ignored)) folders.insert(entry->path());
    }
    if (error) found_.warnings.push_back(fmt::format("{}: {}", directory.string(), error.message()));
    return {folders.begin(), folders.end()};
  }

  bool is_new(const fs::path& directory) {
    std::error_code error;
    const fs::path canonical = fs::canonical(directory, error);
    return seen_.insert(error ? directory : canonical).second;
  }

  void add_run(const fs::path& directory, const Json& summary, const std::string& name) {
    ++runs_here_;
    if (!is_new(directory)) return;
    found_.runs.push_back(read_run(directory.string(), summary, options_.series, found_.warnings));
    if (!name.empty()) found_.runs.back().name = name;
  }

  void add_sweep(const fs::path& directory, int depth) {
    ++runs_here_;
    if (!is_new(directory)) return;
    found_.sweeps.push_back(read_sweep(directory.string(), found_.warnings));
    if (depth <= 0 || !is_present(directory / "best")) return;
    const std::string name = found_.sweeps.back().name + " (best)";
    for (const fs::path& seed : folders_in(directory / "best"))
      if (const auto summary = read_object((seed / "summary.json").string())) add_run(seed, *summary, name);
  }

  CollectOptions options_;
  Collection found_;
  std::set<fs::path> seen_;
  int runs_here_ = 0;
};

}  // namespace

Collection collect(const std::vector<std::string>& directories, const CollectOptions& options) {
  if (directories.empty()) throw InvalidArgument("report: no directory given; name run or sweep directories");
  Collector collector(options);
  for (const std::string& directory : directories) collector.collect(directory);
  return collector.take();
}

}  // namespace spectralclip::lab::report
