// SPDX-License-Identifier: Apache-2.0
#include "report/jsonl.h"

#include <fstream>
#include <iterator>

namespace spectralclip::lab::report {
namespace {

Json parse(const std::string& text) { return Json::parse(text, nullptr, /*allow_exceptions=*/false); }

bool is_blank(const std::string& text) { return text.find_first_not_of(" \t\r") == std::string::npos; }

}  // namespace

LineCounts for_each_line(const std::string& path, const std::function<void(const Json&)>& take) {
  LineCounts counts;
  std::ifstream file(path, std::ios::binary);
  for (std::string line; std::getline(file, line);) {
    const bool whole = !file.eof();  // getline met the end of the line, not that of the file
    if (is_blank(line)) continue;
    const Json value = parse(line);
    if (value.is_object()) {
      ++counts.read;
      take(value);
    } else if (whole) {
      ++counts.damaged;
    } else {
      counts.torn = true;
    }
  }
  return counts;
}

std::optional<Json> read_object(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  Json value = parse(text);
  if (!value.is_object()) return std::nullopt;
  return value;
}

double number_in(const Json& object, std::string_view key, double otherwise) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number() ? found->get<double>() : otherwise;
}

std::string text_in(const Json& object, std::string_view key, const std::string& otherwise) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : otherwise;
}

}  // namespace spectralclip::lab::report
