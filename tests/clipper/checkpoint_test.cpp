// SPDX-License-Identifier: Apache-2.0
// State that is encoded, damaged, decoded, resumed: a resumed run must not differ in a bit, and no damage may load.
#include <gtest/gtest.h>

#include <limits>
#include <memory>

#include "clipper/byte_stream.h"
#include "clipper/checkpoint_format.h"
#include "clipper/trained_clipper.h"

namespace spectralclip {
namespace {

using testing::Bytes;
using testing::make_mixed_model;
using testing::make_small_model;
using testing::mixed_options;
using testing::refusal_of;
using testing::ToyModel;
using testing::trained;

ClipperOptions quantile_options(std::int64_t window = 4) {
  ClipperOptions options;
  options.threshold.kind = ThresholdKind::quantile;
  options.threshold.window = window;
  options.clip.rank = 2;  // so that small layers are searched, and there are vectors to keep
  return options;
}

void reseal(Bytes& bytes) {
  const std::uint64_t checksum = checksum_of(std::span(bytes).first(bytes.size() - kChecksumBytes));
  for (std::size_t i = 0; i < kChecksumBytes; ++i)
    bytes[bytes.size() - kChecksumBytes + i] = static_cast<std::uint8_t>(checksum >> (8 * i));
}

// Steps 0 … 3 here, the rest after a round trip through bytes, against a run without interruption.
void expect_resumed_bits(const ClipperOptions& options, int threads) {
  ThreadPool pool(threads);
  ToyModel straight = make_mixed_model();
  ToyModel resumed = make_mixed_model();
  Clipper whole(straight.parameters(), options);
  auto half = std::make_unique<Clipper>(resumed.parameters(), options);
  for (int step = 0; step < 10; ++step) {
    if (step == 4) {
      const Bytes bytes = half->serialize();
      half = std::make_unique<Clipper>(resumed.parameters(), options);
      half->deserialize(bytes);
      ASSERT_EQ(half->serialize(), bytes);
      ASSERT_EQ(half->steps(), 4);
    }
    straight.fill(step);
    resumed.fill(step);
    const StepReport expected = whole.step(straight.gradients(), serial_executor());
    const StepReport report = half->step(resumed.gradients(), pool);
    ASSERT_EQ(resumed.all_bytes(), straight.all_bytes()) << "step " << step;
    for (std::size_t i = 0; i < report.layers.size(); ++i) {
      ASSERT_EQ(report.layers[i].clip.tau, expected.layers[i].clip.tau);
      ASSERT_EQ(report.layers[i].steps_clipped, expected.layers[i].steps_clipped);
    }
  }
  ASSERT_EQ(half->serialize(), whole.serialize());
}

class ResumeTest : public ::testing::TestWithParam<int> {};

TEST_P(ResumeTest, GivesTheBitsOfAnUninterruptedRun) {
  ClipperOptions options = mixed_options();
  expect_resumed_bits(options, GetParam());
  options.threshold = quantile_options(3).threshold;  // the ring has wrapped when it is saved
  expect_resumed_bits(options, GetParam());
  options.threshold.window = 50;
  expect_resumed_bits(options, GetParam());
  options.clip.rank = 3;
  expect_resumed_bits(options, GetParam());
}

TEST(Resume, HoldsForEveryMethod) {
  for (const Method method :
       {Method::exact, Method::gram, Method::sketched, Method::newton_schulz, Method::automatic}) {
    ClipperOptions options = mixed_options();
    options.clip.method = method;
    expect_resumed_bits(options, 2);
  }
}

INSTANTIATE_TEST_SUITE_P(Threads, ResumeTest, ::testing::Values(1, 2, 3, 8));

// Teeth: without the state the next step differs.
TEST(Checkpoint, WithoutItARunDiffers) {
  ToyModel model = make_mixed_model();
  Clipper clipper = trained(model, mixed_options(), 5);
  ToyModel fresh_model = make_mixed_model();
  Clipper fresh(fresh_model.parameters(), mixed_options());
  model.fill(5);
  fresh_model.fill(5);
  (void)clipper.step(model.gradients(), serial_executor());
  (void)fresh.step(fresh_model.gradients(), serial_executor());
  EXPECT_NE(model.all_bytes(), fresh_model.all_bytes());
}

TEST(Checkpoint, StateBytesIsTheSize) {
  ToyModel model = make_mixed_model();
  for (const int steps : {0, 1, 7}) {
    ClipperOptions options = mixed_options();
    options.threshold = quantile_options().threshold;
    const Clipper clipper = trained(model, options, steps);
    EXPECT_EQ(clipper.state_bytes(), static_cast<std::int64_t>(clipper.serialize().size()));
  }
}

TEST(Checkpoint, EveryTruncationIsRefused) {
  ToyModel model = make_small_model();
  Clipper clipper = trained(model, quantile_options(), 6);
  const Bytes bytes = clipper.serialize();
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    const auto text = refusal_of([&] { clipper.deserialize(std::span(bytes).first(size)); });
    ASSERT_TRUE(text.find("too short") != std::string::npos || text.find("truncated at byte") != std::string::npos)
        << size << ": " << text;
  }
  Bytes longer = bytes;
  longer.push_back(0);
  EXPECT_NE(refusal_of([&] { clipper.deserialize(longer); }).find("too many"), std::string::npos);
  EXPECT_EQ(clipper.serialize(), bytes);
}

TEST(Checkpoint, EveryChangedByteIsRefused) {
  ToyModel model = make_small_model();
  Clipper clipper = trained(model, quantile_options(), 6);
  const Bytes bytes = clipper.serialize();
  for (std::size_t i = 0; i < bytes.size(); ++i)
    for (const std::uint8_t flip : {std::uint8_t{0x01}, std::uint8_t{0x80}, std::uint8_t{0xff}}) {
      Bytes damaged = bytes;
      damaged[i] ^= flip;
      ASSERT_NE(refusal_of([&] { clipper.deserialize(damaged); }), "") << "byte " << i;
    }
  EXPECT_EQ(clipper.serialize(), bytes);
}

// Behind a valid checksum the parser stands alone: it refuses and changes nothing, or what it accepted is a sound state
// that survives its own round trip.
TEST(Checkpoint, ForgedBytesWithAValidChecksumNeverHalfLoad) {
  ToyModel model = make_small_model();
  Clipper clipper = trained(model, quantile_options(), 6);
  const Bytes bytes = clipper.serialize();
  int refused = 0;
  for (std::size_t i = kHeaderBytes; i < bytes.size() - kChecksumBytes; ++i) {
    Bytes forged = bytes;
    forged[i] ^= 0xff;
    reseal(forged);
    const auto text = refusal_of([&] { clipper.deserialize(forged); });
    const Bytes after = clipper.serialize();
    if (!text.empty()) {
      ASSERT_EQ(after, bytes) << "byte " << i << ": " << text;
      ++refused;
    }
    clipper.deserialize(after);
    ASSERT_EQ(clipper.serialize(), after) << "byte " << i;
    (void)clipper.step(model.gradients(), serial_executor());
    clipper.deserialize(bytes);
  }
  EXPECT_GT(refused, 50);
}

TEST(Checkpoint, SaysWhyAForeignOrNewerFileIsRefused) {
  ToyModel model = make_small_model();
  Clipper clipper = trained(model, {}, 2);
  const std::string foreign = "PK\x03\x04 this is some other file, longer than a header, with nothing of ours in it";
  const auto text = refusal_of([&] { clipper.deserialize(Bytes(foreign.begin(), foreign.end())); });
  EXPECT_NE(text.find("not a spectralclip state"), std::string::npos) << text;
  Bytes newer = clipper.serialize();
  newer[kCheckpointMagic.size()] = kCheckpointVersion + 1;
  reseal(newer);
  EXPECT_NE(refusal_of([&] { clipper.deserialize(newer); }).find("format version 2"), std::string::npos);
  Bytes damaged = clipper.serialize();
  damaged[damaged.size() / 2] ^= 1;
  EXPECT_NE(refusal_of([&] { clipper.deserialize(damaged); }).find("checksum"), std::string::npos);
  Bytes huge = clipper.serialize();  // 2^63 layers promised: refused before memory is asked for
  huge[kHeaderBytes + 8 + 7] = 0x80;
  reseal(huge);
  EXPECT_NE(refusal_of([&] { clipper.deserialize(huge); }).find("number of layers"), std::string::npos);
}

TEST(Checkpoint, NamesWhatDoesNotMatchTheModel) {
  ToyModel saved;
  ToyModel here;
  for (int i = 0; i < 8; ++i) saved.add("old" + std::to_string(i), {3, 4});
  here.add("old0", {3, 4});
  for (int i = 0; i < 7; ++i) here.add("new" + std::to_string(i), {3, 4});
  const Bytes bytes = trained(saved, {}, 1).serialize();
  Clipper clipper(here.parameters());
  EXPECT_EQ(
      refusal_of([&] { clipper.deserialize(bytes); }),
      "state is of another model: missing new0, new1, new2, new3, new4 and 2 more; unexpected old1, old2, old3, old4, "
      "old5 and 2 more");
  Clipper reshaped({{"old0", {4, 3}}});
  ToyModel one;
  one.add("old0", {3, 4});
  const auto text = refusal_of([&] { reshaped.deserialize(trained(one, {}, 1).serialize()); });
  EXPECT_NE(text.find("layer \"old0\" is 3 x 4 there and 4 x 3 here"), std::string::npos) << text;
}

TEST(Checkpoint, LayersAreFoundByNameInAnyOrder) {
  ToyModel model = make_small_model();
  const Clipper clipper = trained(model, {}, 4);
  auto parameters = model.parameters();
  std::swap(parameters[0], parameters[1]);
  Clipper swapped(parameters);
  swapped.deserialize(clipper.serialize());
  EXPECT_EQ(swapped.layers()[1].name, "a.weight");
  EXPECT_EQ(swapped.layers()[1].steps_clipped, clipper.layers()[0].steps_clipped);
}

// Options may change between runs: a longer or shorter window keeps the latest values. (Other kinds:
// carry_over_test.cpp.)
TEST(Checkpoint, OptionsMayChange) {
  ToyModel model = make_small_model();
  std::vector<double> seen;
  Clipper clipper(model.parameters(), quantile_options(4));
  for (int step = 0; step < 7; ++step) {
    model.fill(step);
    seen.push_back(clipper.step(model.gradients(), serial_executor()).layers[0].clip.sigma_max);
  }
  for (const std::int64_t window : {2, 4, 9}) {
    Clipper other(model.parameters(), quantile_options(window));
    other.deserialize(clipper.serialize());
    EXPECT_TRUE(other.load_notes().empty());
    const auto options = quantile_options(window).threshold;
    ThresholdState state = make_threshold_state(options);
    for (std::size_t i = seen.size() - static_cast<std::size_t>(std::min<std::int64_t>(4, window)); i < seen.size();
         ++i)
      (void)observe(options, state, seen[i]);
    for (int step = 7; step < 12; ++step) {
      model.fill(step);
      const StepReport report = other.step(model.gradients(), serial_executor());
      EXPECT_EQ(report.layers[0].clip.tau, threshold(options, state)) << "window " << window;
      (void)observe(options, state, report.layers[0].clip.sigma_max);
    }
  }
}

}  // namespace
}  // namespace spectralclip
