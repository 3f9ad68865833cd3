// SPDX-License-Identifier: Apache-2.0
#include "spectralclip/settings.h"

#include <gtest/gtest.h>

#include <limits>

#include "spectralclip/error.h"

namespace spectralclip {
namespace {

template <class Options>
std::string refusal(const char* name, const char* value) {
  Options options;
  const auto before = settings_of(options);
  try {
    set_option(options, name, value);
  } catch (const InvalidArgument& error) {
    for (std::size_t i = 0; i < before.size(); ++i) EXPECT_EQ(settings_of(options)[i].value, before[i].value);
    return error.what();
  }
  return "";
}

TEST(Settings, EveryOptionRoundTrips) {
  ClipOptions clip{.method = Method::newton_schulz, .rank = 7, .oversampling = 3, .power_passes = 2};
  clip.tolerance = 0.1 + 0.2;  // no short decimal
  clip.seed = std::numeric_limits<std::uint64_t>::max();
  clip.margin = 0.01 / 3;
  clip.max_passes = 11;
  clip.max_columns = 40;
  clip.observe_only = clip.measure_time = true;
  for (const Exhausted exhausted : {Exhausted::go_exact, Exhausted::report, Exhausted::automatic}) {
    clip.exhausted = exhausted;
    ClipOptions copy;
    copy.exhausted = exhausted == Exhausted::go_exact ? Exhausted::report : Exhausted::go_exact;
    for (const Setting& setting : settings_of(clip)) set_option(copy, setting.name, setting.value);
    EXPECT_EQ(copy, clip);
  }

  ThresholdOptions threshold{.kind = ThresholdKind::quantile, .window = 12, .interpolation = Interpolation::linear};
  ThresholdOptions other;
  for (const Setting& setting : settings_of(threshold)) set_option(other, setting.name, setting.value);
  EXPECT_EQ(to_string(other), to_string(threshold));
  EXPECT_EQ(other.cap, std::numeric_limits<double>::infinity());
}

TEST(Settings, DefaultsPassTheirOwnRanges) {
  for (const Setting& setting : settings_of(ClipOptions{})) EXPECT_FALSE(setting.help.empty()) << setting.name;
  ClipOptions options;
  for (const Setting& setting : settings_of(options)) set_option(options, setting.name, setting.value);
  EXPECT_NO_THROW(validate(options));
}

TEST(Settings, RefusalsNameTheValueAndWhatIsAllowed) {
  EXPECT_EQ(refusal<ClipOptions>("method", "svd"),
            "method = \"svd\" is not exact, gram, sketched, tracked, newton_schulz, auto");
  EXPECT_EQ(refusal<ClipOptions>("rank", "ten"), "rank = \"ten\" is not none or integer >= 1");
  EXPECT_EQ(refusal<ClipOptions>("tolerance", "1e-4x"), "tolerance = \"1e-4x\" is not number in (0, 1)");
  EXPECT_EQ(refusal<ClipOptions>("margin", "wide"), "margin = \"wide\" is not number in (0, 0.1]");
  EXPECT_EQ(refusal<ClipOptions>("exhausted", "gram"), "exhausted = \"gram\" is not go_exact, report, auto");
  EXPECT_NE(refusal<ClipOptions>("margn", "0.01").find("did you mean \"margin\"?"), std::string::npos);
  EXPECT_NE(refusal<ThresholdOptions>("decai", "0.9").find("did you mean \"decay\"?"), std::string::npos);
  EXPECT_EQ(refusal<ThresholdOptions>("completely_else", "1").find("did you mean"), std::string::npos);
}

}  // namespace
}  // namespace spectralclip
