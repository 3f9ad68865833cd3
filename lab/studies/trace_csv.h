// SPDX-License-Identifier: Apache-2.0
// The published table of the trace-regression study: cumulative averages of the bias over seeds.
#pragma once

#include <string>
#include <vector>

namespace spectralclip::lab {

// Reads summary.json and metrics.jsonl of each run directory (one per seed, all with the same logged steps) and writes
// FOLDER/tracereg_sigma{s}_seeds{n}.csv with the columns method,iteration,mean,std,min,max; population standard
// deviation, iterations from 0. Returns its path. Throws InvalidArgument when the runs do not belong together and
// StateFileError when a file cannot be read or written.
std::string write_trace_csv(const std::vector<std::string>& runs, const std::string& folder);

}  // namespace spectralclip::lab
