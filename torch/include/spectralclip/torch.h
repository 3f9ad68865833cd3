// SPDX-License-Identifier: Apache-2.0
// The whole interface for LibTorch.
#pragma once

#include "spectralclip/spectralclip.h"             // IWYU pragma: export
#include "spectralclip/torch/clip_directions.h"    // IWYU pragma: export
#include "spectralclip/torch/clip_grad.h"          // IWYU pragma: export
#include "spectralclip/torch/clipped_optimizer.h"  // IWYU pragma: export
#include "spectralclip/torch/clipper.h"            // IWYU pragma: export
#include "spectralclip/torch/gradient_clipper.h"   // IWYU pragma: export
#include "spectralclip/torch/momentum_sgd.h"       // IWYU pragma: export
#include "spectralclip/torch/muon.h"               // IWYU pragma: export
#include "spectralclip/torch/report_fields.h"      // IWYU pragma: export
#include "spectralclip/torch/step_report.h"        // IWYU pragma: export
