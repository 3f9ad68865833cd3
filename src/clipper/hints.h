// SPDX-License-Identifier: Apache-2.0
// What about a layer may not be meant, said in its report: nothing here changes what is done.
#pragma once

#include <cstddef>
#include <vector>

#include "clipper/layer.h"

namespace spectralclip {

// Fills `hint` of the reports of `added`, the layers of `parameters` (numbered from `first`). A model that keeps the
// tensors of all its layers in one, (L, m, n) and (L, n), has them read as L x (m n) and L x n by the default rules.
void add_hints(LayerSet& added, const std::vector<Parameter>& parameters, std::size_t first);

}  // namespace spectralclip
