// SPDX-License-Identifier: Apache-2.0
// The conformance list on the core.
#include "conformance/method_list.h"

namespace spectralclip::testing {
namespace {

INSTANTIATE_TEST_SUITE_P(Methods, Conformance, ::testing::Combine(::testing::ValuesIn(kMethods), kStorageTypes),
                         case_name);

}  // namespace
}  // namespace spectralclip::testing
