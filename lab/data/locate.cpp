// SPDX-License-Identifier: Apache-2.0
#include "data/locate.h"

#include <glob.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "data/data_error.h"

namespace spectralclip::lab::data {
namespace {

namespace fs = std::filesystem;

void add_once(std::vector<std::string>& folders, std::string folder) {
  if (std::ranges::find(folders, folder) == folders.end()) folders.push_back(std::move(folder));
}

std::string listed(const std::vector<std::string>& folders) {
  std::string text;
  for (const std::string& folder : folders) text += (text.empty() ? "" : ", ") + folder;
  return text;
}

// A folder's own name may hold what a glob would read.
std::string escaped(const std::string& folder) {
  std::string text;
  for (const char c : folder) {
    if (c == '*' || c == '?' || c == '[' || c == '\\') text += '\\';
    text += c;
  }
  return text;
}

}  // namespace

std::vector<std::string> data_folders(const std::string& run_directory) {
  std::vector<std::string> folders;
  if (const char* chosen = std::getenv("SPECTRALCLIP_DATA"); chosen != nullptr && *chosen != '\0')
    folders.emplace_back(chosen);
  add_once(folders, "data");
  if (!run_directory.empty()) {
    const fs::path run = fs::path(run_directory).lexically_normal();
    const fs::path parent = run.has_filename() ? run.parent_path() : run.parent_path().parent_path();
    add_once(folders, (parent / "data").string());
  }
  add_once(folders, "../shared/data");
  if (const char* home = std::getenv("HOME")) add_once(folders, std::string(home) + "/.cache/spectralclip");
  return folders;
}

std::vector<std::string> glob_files(const std::string& pattern) {
  std::error_code none;
  const std::string all = fs::is_directory(pattern, none) ? escaped(pattern) + "/*" : pattern;
  if (fs::is_regular_file(pattern, none)) return {pattern};  // though its name may look like a glob
  ::glob_t found{};
  std::vector<std::string> files;
  if (::glob(all.c_str(), 0, nullptr, &found) == 0) {
    for (std::size_t i = 0; i < found.gl_pathc; ++i) {
      if (fs::is_regular_file(found.gl_pathv[i], none)) files.emplace_back(found.gl_pathv[i]);
    }
  }
  ::globfree(&found);
  std::ranges::sort(files);  // glob's own order is the locale's
  return files;
}

std::vector<std::string> find_data(const DataSet& set, const std::string& run_directory) {
  for (const std::string& folder : data_folders(run_directory)) {
    for (const std::string& pattern : set.patterns) {
      std::vector<std::string> files = glob_files(escaped(folder) + "/" + pattern);
      if (!files.empty()) return files;
    }
  }
  return {};
}

std::vector<std::string> find_archives(const DataSet& set) {
  std::vector<std::string> archives;
  for (const std::string& folder : data_folders()) {
    for (const std::string& pattern : set.archives) {
      for (std::string& file : glob_files(escaped(folder) + "/" + pattern)) archives.push_back(std::move(file));
    }
  }
  return archives;
}

std::vector<std::string> locate(std::string_view name, const std::string& run_directory) {
  const DataSet& set = data_set(name);
  std::vector<std::string> files = find_data(set, run_directory);
  if (!files.empty()) return files;
  const std::vector<std::string> archives = find_archives(set);
  throw_data_error("the data set ", set.name, " (", set.help, ") is not in ", listed(data_folders(run_directory)),
                   ".\n", archives.empty() ? "" : "Found, but still to be unpacked: " + listed(archives) + "\n",
                   "To get it from ", set.home, ":\n  mkdir -p data && cd data && ", set.get,
                   "\nSPECTRALCLIP_DATA=FOLDER names another folder to look in.");
}

std::vector<std::string> locate_or(const std::string& path, std::string_view name, const std::string& run_directory) {
  if (path.empty()) return locate(name, run_directory);
  std::vector<std::string> files = glob_files(path);
  if (files.empty()) throw_data_error("there is no file ", path, "; a file, a folder of files or a glob was expected");
  return files;
}

}  // namespace spectralclip::lab::data
