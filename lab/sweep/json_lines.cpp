// SPDX-License-Identifier: Apache-2.0
#include "sweep/json_lines.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "clipper/atomic_file.h"
#include "spectralclip/error.h"

namespace spectralclip::lab {
namespace {

[[noreturn]] void fail(const char* what, const std::string& path, int error) {
  throw StateFileError(fmt::format("cannot {} {}: {}", what, path, std::generic_category().message(error)));
}

// Empty or what is wrong with the line.
std::string take_line(std::string_view line, const std::function<void(const nlohmann::ordered_json&)>& take) {
  try {
    take(nlohmann::ordered_json::parse(line));
    return {};
  } catch (const std::exception& error) {
    return error.what();
  }
}

// Number of bytes that are sound.
std::size_t read_lines(std::string_view text, const std::string& path,
                       const std::function<void(const nlohmann::ordered_json&)>& take, std::string& warning) {
  std::size_t start = 0;
  for (std::size_t number = 1; start < text.size(); ++number) {
    const std::size_t end = text.find('\n', start);
    const bool torn = end == std::string_view::npos;
    const std::string wrong = torn ? "incomplete" : take_line(text.substr(start, end - start), take);
    if (!wrong.empty()) {
      if (!torn && end + 1 < text.size())
        throw StateFileError(fmt::format("{}, line {}: damaged ({})", path, number, wrong));
      warning = fmt::format("{}, line {}: damaged ({}); cut off", path, number, wrong);
      return start;
    }
    start = end + 1;
  }
  return start;
}

}  // namespace

JsonLines::JsonLines(std::string path, const std::function<void(const nlohmann::ordered_json&)>& take,
                     std::string& warning)
    : path_(std::move(path)) {
  if (!std::filesystem::exists(path_)) write_file_atomically(path_, {});  // syncs the directory entry too
  const std::string text = read_text(path_);
  const std::size_t sound = read_lines(text, path_, take, warning);
  descriptor_ = ::open(path_.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  if (descriptor_ < 0) fail("open", path_, errno);
  if (sound < text.size() && (::ftruncate(descriptor_, static_cast<off_t>(sound)) != 0 || ::fsync(descriptor_) != 0)) {
    const int error = errno;
    (void)::close(descriptor_);
    fail("cut off the damaged end of", path_, error);
  }
}

JsonLines::~JsonLines() { (void)::close(descriptor_); }

void JsonLines::append(const nlohmann::ordered_json& line) {
  const std::string text = line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(text.data());
  if (const int error = write_fully(descriptor_, {bytes, text.size()}); error != 0) fail("write", path_, error);
  if (::fsync(descriptor_) != 0) fail("write", path_, errno);
}

}  // namespace spectralclip::lab
