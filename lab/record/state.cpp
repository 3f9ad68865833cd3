// SPDX-License-Identifier: Apache-2.0
#include "record/state.h"

#include <algorithm>

#include "require.h"

namespace spectralclip::lab {
namespace {

const Bytes& section_of(const Sections& sections, const std::string& name) {
  const auto found = sections.find(name);
  if (found == sections.end()) throw StateFileError("state has no section \"" + name + "\"");
  return found->second;
}

}  // namespace

void MemoryState::begin(const std::string& section) {
  sections_[section].clear();
  open_ = section;
}

void MemoryState::write(std::span<const std::uint8_t> bytes) {
  Bytes& section = sections_.at(open_);
  section.insert(section.end(), bytes.begin(), bytes.end());
}

std::uint64_t MemoryState::size(const std::string& section) const { return section_of(sections_, section).size(); }

void MemoryState::read(const std::string& section, std::uint64_t offset, std::span<std::uint8_t> out) const {
  const Bytes& bytes = section_of(sections_, section);
  if (offset > bytes.size() || out.size() > bytes.size() - offset)
    throw StateFileError(detail::concat("section \"", section, "\" has ", bytes.size(), " bytes, wanted ", out.size(),
                                        " from ", offset, " on"));
  std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(offset), out.size(), out.begin());
}

}  // namespace spectralclip::lab
