// SPDX-License-Identifier: Apache-2.0
// Misuse throws; what can happen on valid input is a status in the report (report.h).
#pragma once

#include <stdexcept>
#include <string>

#include "spectralclip/export.h"

namespace spectralclip {

// A call that could not be honoured: the message names the value and what was expected.
class SPECTRALCLIP_EXPORT Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// An argument outside its range (tau < 0, rank 0, a row stride below the column count, a null pointer, …).
class SPECTRALCLIP_EXPORT InvalidArgument : public Error {
 public:
  using Error::Error;
};

// A state file that cannot be read or written: damaged, foreign, of another model, or a disk that is full.
class SPECTRALCLIP_EXPORT StateFileError : public Error {
 public:
  using Error::Error;
};

// Ranks that share a gradient do not agree: about the layers, their state, or who has a gradient.
class RanksDisagree : public Error {
 public:
  using Error::Error;
};

}  // namespace spectralclip
