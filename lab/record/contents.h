// SPDX-License-Identifier: Apache-2.0
// What a directory holds, before anything is written there: results of another kind are neither overwritten nor hidden.
#pragma once

#include <string>

namespace spectralclip::lab {

enum class Contents { nothing, run, sweep, folder_of_runs };

// By the files of docs/laboratory.md; a folder of runs has a run or a sweep down to three levels below it.
[[nodiscard]] Contents contents_of(const std::string& directory);

// Throws InvalidArgument, naming what is there: `directory` holds something else than `wanted`, or lies inside of a run
// or a sweep, where no report would find it.
void require_place_for(Contents wanted, const std::string& directory);

}  // namespace spectralclip::lab
