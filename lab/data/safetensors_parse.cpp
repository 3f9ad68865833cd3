// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

#include "data/data_error.h"
#include "data/safetensors_header.h"

namespace spectralclip::lab::data {
namespace {

using nlohmann::json;

constexpr std::uint64_t kMostHeaderBytes = 100'000'000;  // as the reference implementation has it
constexpr std::size_t kLengthBytes = 8;

std::string_view header_text(std::span<const std::byte> bytes, const std::string& name) {
  if (bytes.size() < kLengthBytes)
    throw_data_error(name, ": ", bytes.size(), " bytes are too few for a safetensors file");
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof length);
  const std::uint64_t rest = bytes.size() - kLengthBytes;
  if (length > rest || length > kMostHeaderBytes)
    throw_data_error(name, ": the header is said to have ", length, " bytes; at most ",
                     std::min(rest, kMostHeaderBytes), " were expected (truncated, or no safetensors file)");
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()) + kLengthBytes, length);
  if (!text.starts_with('{')) throw_data_error(name, ": the header does not begin with {; no safetensors file");
  return text;
}

// JSON allows a name twice, this format does not. Nothing in a header lies deeper than a list in an entry.
json parsed(std::string_view text, const std::string& name) {
  std::vector<std::set<std::string>> keys;
  const auto check = [&](int depth, json::parse_event_t event, json& value) {
    if (depth > 4) throw_data_error(name, ": the header is nested too deeply");
    if (event == json::parse_event_t::object_start) keys.emplace_back();
    if (event == json::parse_event_t::object_end) keys.pop_back();
    if (event == json::parse_event_t::key && !keys.back().insert(value.get<std::string>()).second)
      throw_data_error(name, ": the header has \"", value.get<std::string>(), "\" twice");
    return true;
  };
  try {
    return json::parse(text, check);
  } catch (const json::exception& error) {
    throw_data_error(name, ": the header is no JSON (", error.what(), ")");
  }
}

struct Entry {
  std::string name;
  ElementType type;
  std::vector<std::int64_t> shape;
  std::int64_t begin, end;  // in the data
};

// A list of integers in [0, 2^63).
std::vector<std::int64_t> integers(const json& list, const std::string& what) {
  if (!list.is_array()) throw_data_error(what, " is no list");
  std::vector<std::int64_t> values;
  for (const json& one : list) {
    if (!one.is_number_unsigned() || one.get<std::uint64_t>() > std::uint64_t{1} << 62)
      throw_data_error(what, " holds ", one.dump(), "; integers of at least 0 were expected");
    values.push_back(one.get<std::int64_t>());
  }
  return values;
}

ElementType type_of(const json& field, const std::string& what) {
  const auto type = field.is_string() ? parse_element_type(field.get<std::string>()) : std::nullopt;
  if (!type) throw_data_error(what, ": dtype ", field.dump(), " is not known");
  return *type;
}

Entry parse_entry(const std::string& key, const json& entry, const std::string& what) {
  if (!entry.is_object() || entry.size() != 3 || !entry.contains("dtype") || !entry.contains("shape") ||
      !entry.contains("data_offsets"))
    throw_data_error(what, ": dtype, shape and data_offsets, and nothing else, were expected");
  Entry result{key, type_of(entry["dtype"], what), integers(entry["shape"], what + ": shape"), 0, 0};
  const std::vector<std::int64_t> offsets = integers(entry["data_offsets"], what + ": data_offsets");
  if (offsets.size() != 2 || offsets[0] > offsets[1])
    throw_data_error(what, ": data_offsets ", entry["data_offsets"].dump(), "; a begin and an end were expected");
  result.begin = offsets[0];
  result.end = offsets[1];
  const auto expected = bytes_of(result.type, result.shape);
  if (!expected || *expected != result.end - result.begin)
    throw_data_error(what, ": ", to_string(result.type), " ", shape_text(result.shape), " does not fit ",
                     result.end - result.begin, " bytes");
  return result;
}

// Data lie without holes or overlaps, to the end of the file.
void check_layout(std::vector<Entry>& entries, std::int64_t available, const std::string& name) {
  std::ranges::stable_sort(entries, {}, [](const Entry& entry) { return std::pair(entry.begin, entry.end); });
  std::int64_t at = 0;
  for (const Entry& entry : entries) {
    if (entry.begin != at)
      throw_data_error(name, ": tensor \"", entry.name, "\" begins at byte ", entry.begin, " of the data; ", at,
                       " was expected (a hole or an overlap)");
    at = entry.end;
  }
  if (at != available)
    throw_data_error(name, at > available ? " is truncated: " : " is too long: ", available,
                     " bytes of data; the header says ", at);
}

std::map<std::string, std::string> metadata_of(const json& entry, const std::string& name) {
  std::map<std::string, std::string> metadata;
  if (!entry.is_object()) throw_data_error(name, ": __metadata__ is no object");
  for (const auto& [key, value] : entry.items()) {
    if (!value.is_string()) throw_data_error(name, ": __metadata__ \"", key, "\" is no string");
    metadata[key] = value.get<std::string>();
  }
  return metadata;
}

}  // namespace

SafetensorsHeader parse_safetensors(std::span<const std::byte> bytes, const std::string& name) {
  const std::string_view text = header_text(bytes, name);
  const json tree = parsed(text, name);
  SafetensorsHeader header;
  std::vector<Entry> entries;
  for (const auto& [key, entry] : tree.items()) {
    if (key == "__metadata__")
      header.metadata = metadata_of(entry, name);
    else
      entries.push_back(parse_entry(key, entry, name + ": tensor \"" + key + "\""));
  }
  const auto data = bytes.subspan(kLengthBytes + text.size());
  check_layout(entries, static_cast<std::int64_t>(data.size()), name);
  for (Entry& entry : entries)
    header.tensors.push_back(
        {std::move(entry.name), entry.type, std::move(entry.shape),
         data.subspan(static_cast<std::size_t>(entry.begin), static_cast<std::size_t>(entry.end - entry.begin))});
  return header;
}

}  // namespace spectralclip::lab::data
