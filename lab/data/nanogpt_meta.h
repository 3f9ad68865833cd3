// SPDX-License-Identifier: Apache-2.0
// nanoGPT's meta.pkl of a character data set: {"vocab_size": n, "itos": {0: "\n", …}, "stoi": …}.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "data/vocabulary.h"

namespace spectralclip::lab::data {

// Refused: symbols that are missing, of more than one character, or not in sorted order (nanoGPT sorts them).
[[nodiscard]] Vocabulary parse_nanogpt_meta(std::span<const std::byte> bytes, const std::string& name);
[[nodiscard]] Vocabulary read_nanogpt_meta(const std::string& path);

}  // namespace spectralclip::lab::data
