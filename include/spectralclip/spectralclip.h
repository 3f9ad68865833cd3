// SPDX-License-Identifier: Apache-2.0
// The whole C++ interface of the core, in pipeline order.
#pragma once

#include "spectralclip/clip.h"       // IWYU pragma: export
#include "spectralclip/clipper.h"    // IWYU pragma: export
#include "spectralclip/error.h"      // IWYU pragma: export
#include "spectralclip/executor.h"   // IWYU pragma: export
#include "spectralclip/factors.h"    // IWYU pragma: export
#include "spectralclip/matrix.h"     // IWYU pragma: export
#include "spectralclip/options.h"    // IWYU pragma: export
#include "spectralclip/proposal.h"   // IWYU pragma: export
#include "spectralclip/reduction.h"  // IWYU pragma: export
#include "spectralclip/report.h"     // IWYU pragma: export
#include "spectralclip/rules.h"      // IWYU pragma: export
#include "spectralclip/settings.h"   // IWYU pragma: export
#include "spectralclip/telemetry.h"  // IWYU pragma: export
#include "spectralclip/threshold.h"  // IWYU pragma: export
#include "spectralclip/version.h"    // IWYU pragma: export
