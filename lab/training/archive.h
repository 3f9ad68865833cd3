// SPDX-License-Identifier: Apache-2.0
// torch archives as sections of a state, streamed: torch writes and reads pieces, none of which is the whole.
#pragma once

#include <torch/torch.h>

#include <functional>
#include <string>

#include "record/state.h"

namespace spectralclip::lab {

void write_archive(StateWriter& out, const std::string& section,
                   const std::function<void(::torch::serialize::OutputArchive&)>& fill);
// Throws StateFileError with torch's reason.
void read_archive(const StateReader& in, const std::string& section,
                  const std::function<void(::torch::serialize::InputArchive&)>& take);

// Parameters and buffers of a network by their names, in section "weights".
void write_weights(StateWriter& out, const ::torch::nn::Module& model);
void read_weights(const StateReader& in, ::torch::nn::Module& model);

}  // namespace spectralclip::lab
