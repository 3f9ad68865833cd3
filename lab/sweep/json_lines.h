// SPDX-License-Identifier: Apache-2.0
// A file of JSON objects, one a line, that only grows and survives a kill at any moment.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>

namespace spectralclip::lab {

class JsonLines {
 public:
  // Opens or creates the file and passes every line to `take`, in order. What `take` throws counts as damage.
  // A damaged last line is what a kill during append leaves: it is cut off and `warning` says so. Damage further up is
  // not ours to mend: StateFileError naming file and line.
  JsonLines(std::string path, const std::function<void(const nlohmann::ordered_json&)>& take, std::string& warning);
  ~JsonLines();
  JsonLines(const JsonLines&) = delete;
  JsonLines& operator=(const JsonLines&) = delete;

  // On disk when it returns (write, fsync).
  void append(const nlohmann::ordered_json& line);

 private:
  std::string path_;
  int descriptor_ = -1;
};

}  // namespace spectralclip::lab
