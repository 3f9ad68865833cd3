// SPDX-License-Identifier: Apache-2.0
// The words of a report, as telemetry and the C interface show them.
#include "spectralclip/report.h"

namespace spectralclip {

const char* to_string(ClipStatus status) noexcept {
  switch (status) {
    case ClipStatus::ok:
      return "ok";
    case ClipStatus::not_finite:
      return "not_finite";
    case ClipStatus::rank_exhausted:
      return "rank_exhausted";
    case ClipStatus::factorization_failed:
      return "factorization_failed";
    case ClipStatus::not_converged:
      return "not_converged";
    case ClipStatus::out_of_range:
      return "out_of_range";
    case ClipStatus::out_of_memory:
      return "out_of_memory";
  }
  return "unknown";
}

const char* to_string(BoundKind kind) noexcept {
  switch (kind) {
    case BoundKind::certain:
      return "certain";
    case BoundKind::estimated:
      return "estimated";
  }
  return "unknown";
}

}  // namespace spectralclip
