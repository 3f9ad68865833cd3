// SPDX-License-Identifier: Apache-2.0
// A file of data that is missing, damaged or not what it was taken for. The message names the file, the value found and
// what was expected.
#pragma once

#include "require.h"
#include "spectralclip/error.h"

namespace spectralclip::lab::data {

class DataError : public Error {
 public:
  using Error::Error;
};

// throw_data_error(path, ": ", value, " where ", …)
template <class... Parts>
[[noreturn]] void throw_data_error(const Parts&... parts) {
  throw DataError(detail::concat(parts...));
}

}  // namespace spectralclip::lab::data
