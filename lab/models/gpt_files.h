// SPDX-License-Identifier: Apache-2.0
// GPT-2 weights as Hugging Face's model.safetensors and as llm.c's model files. Hugging Face keeps the four matrices of
// a block as (in, out), llm.c and this network as (out, in); all have one table for tokens and head.
#pragma once

#include <string>

#include "models/gpt.h"

namespace spectralclip::lab {

// By the file's ending: .safetensors, else llm.c's. Names may start with "transformer."; a head that is stored beside
// the table is not read. Throws DataError naming file, tensor and shape; the network is then as it was or partly read.
void load_gpt(const std::string& path, Gpt& gpt);
// Atomic, float32. Throws InvalidArgument when the format has no place for such a network.
void save_gpt(const std::string& path, const Gpt& gpt);

}  // namespace spectralclip::lab
