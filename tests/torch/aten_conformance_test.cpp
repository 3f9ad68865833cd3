// SPDX-License-Identifier: Apache-2.0
// The conformance list of the core on ATen operators, each matrix from a cold start. `exact`, `gram` and
// `newton_schulz` are one algorithm there, held to rounding of the storage.
#include <ATen/Parallel.h>

#include "conformance/method_list.h"
#include "torch/aten_engine.h"

namespace spectralclip::testing {
namespace {

constexpr MethodCase kAtenMethods[] = {
    {"exact", Method::exact, 101, false, 0, clip_by_aten},
    {"gram", Method::gram, 101, false, 0, clip_by_aten},
    {"sketched", Method::sketched, 1 << 20, true, kSketchedRank, clip_by_aten},
    {"tracked", Method::tracked, 1 << 20, true, 0, clip_by_aten},
    {"newton_schulz", Method::newton_schulz, 101, false, 0, clip_by_aten},
    {"automatic", Method::automatic, 1 << 20, true, 0, clip_by_aten},
};

// Matrices here are small; a second thread would spend its time waiting, ten times as much on a busy machine.
class OneThread : public ::testing::Environment {
 public:
  void SetUp() override { at::set_num_threads(1); }
};
const auto* const kOneThread = ::testing::AddGlobalTestEnvironment(new OneThread);

INSTANTIATE_TEST_SUITE_P(Aten, Conformance, ::testing::Combine(::testing::ValuesIn(kAtenMethods), kStorageTypes),
                         case_name);

}  // namespace
}  // namespace spectralclip::testing
