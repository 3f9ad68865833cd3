// SPDX-License-Identifier: Apache-2.0
#include "record/jsonl_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <span>
#include <system_error>

#include "clipper/atomic_file.h"
#include "require.h"

namespace spectralclip::lab {
namespace {

constexpr std::size_t kPendingLimit = 1 << 16;  // bytes before a line is written by itself

[[noreturn]] void fail(const std::string& path, int error) {
  throw StateFileError(detail::concat("cannot write ", path, ": ", std::generic_category().message(error)));
}

std::string whole_text(const std::string& path) {
  if (::access(path.c_str(), F_OK) != 0) return {};
  return read_text(path);
}

// The line's step; throws where it is no JSON object with one.
std::int64_t step_of(const std::string& line, const std::string& path, std::size_t number) {
  const auto json = nlohmann::json::parse(line, nullptr, false);
  if (json.is_discarded() || !json.is_object() || !json.contains("step") || !json["step"].is_number_integer())
    throw StateFileError(detail::concat(path, ", line ", number, " is damaged: ", line.substr(0, 60)));
  return json["step"].get<std::int64_t>();
}

}  // namespace

std::size_t kept_length(const std::string& text, std::int64_t keep_step, const std::string& path) {
  std::size_t begin = 0;
  if (keep_step < 0) return 0;
  for (std::size_t number = 1; begin < text.size(); ++number) {
    const std::size_t end = text.find('\n', begin);
    if (end == std::string::npos) break;  // torn by a kill
    if (step_of(text.substr(begin, end - begin), path, number) > keep_step) break;
    begin = end + 1;
  }
  return begin;
}

JsonlFile::JsonlFile(std::string path, std::int64_t keep_step) : path_(std::move(path)), descriptor_(-1) {
  const std::size_t length = kept_length(whole_text(path_), keep_step, path_);
  descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (descriptor_ < 0) fail(path_, errno);
  if (::ftruncate(descriptor_, static_cast<off_t>(length)) != 0) {
    const int error = errno;
    ::close(descriptor_);
    fail(path_, error);
  }
}

JsonlFile::~JsonlFile() { ::close(descriptor_); }

void JsonlFile::append(const nlohmann::ordered_json& line) {
  pending_ += line.dump();
  pending_ += '\n';
  if (pending_.size() > kPendingLimit) flush();
}

void JsonlFile::flush() {
  const auto* data = reinterpret_cast<const std::uint8_t*>(pending_.data());
  const int error = write_fully(descriptor_, std::span(data, pending_.size()));
  pending_.clear();
  if (error != 0) fail(path_, error);
}

void JsonlFile::sync() {
  flush();
  if (::fsync(descriptor_) != 0) fail(path_, errno);
}

}  // namespace spectralclip::lab
