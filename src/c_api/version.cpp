// SPDX-License-Identifier: Apache-2.0
#include "spectralclip/version.h"

#define SPECTRALCLIP_TEXT_OF(x) #x
#define SPECTRALCLIP_VERSION_TEXT(major, minor, patch) \
  SPECTRALCLIP_TEXT_OF(major) "." SPECTRALCLIP_TEXT_OF(minor) "." SPECTRALCLIP_TEXT_OF(patch)

namespace spectralclip {

const char* version() noexcept {
  return SPECTRALCLIP_VERSION_TEXT(SPECTRALCLIP_VERSION_MAJOR, SPECTRALCLIP_VERSION_MINOR, SPECTRALCLIP_VERSION_PATCH);
}

}  // namespace spectralclip
