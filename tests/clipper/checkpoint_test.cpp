// SPDX-License-Identifier: Apache-2.0
// State that is saved, damaged, loaded, resumed: a resumed run must not differ in a bit, and no damaged file may load.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>

#include "clipper/atomic_file.h"
#include "clipper/byte_stream.h"
#include "clipper/checkpoint_format.h"
#include "clipper/toy_model.h"
#include "spectralclip/error.h"

namespace spectralclip {
namespace {

namespace fs = std::filesystem;
using testing::make_mixed_model;
using testing::mixed_options;
using testing::ToyModel;
using Bytes = std::vector<std::uint8_t>;

class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string name = (fs::temp_directory_path() / "spectralclip_XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp failed");
    path_ = name;
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  [[nodiscard]] std::string file(const char* name) const { return (path_ / name).string(); }
  [[nodiscard]] fs::path path() const { return path_; }
  [[nodiscard]] std::ptrdiff_t entries() const {
    return std::distance(fs::directory_iterator(path_), fs::directory_iterator{});
  }

 private:
  fs::path path_;
};

template <class Call>
std::string refusal_of(const Call& call) {
  try {
    call();
  } catch (const StateFileError& error) {
    return error.what();
  }
  return "";
}

ToyModel make_small_model() {
  ToyModel model;
  model.add("a.weight", {6, 5});
  model.add("b.bias", {4}, ScalarType::float32, 0);
  return model;
}

ClipperOptions quantile_options(std::int64_t window = 4) {
  ClipperOptions options;
  options.threshold.kind = ThresholdKind::quantile;
  options.threshold.window = window;
  return options;
}

Clipper trained(ToyModel& model, const ClipperOptions& options, int steps) {
  Clipper clipper(model.parameters(), options);
  for (int step = 0; step < steps; ++step) {
    model.fill(step);
    (void)clipper.step(model.gradients(), serial_executor());
  }
  return clipper;
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
  EXPECT_EQ(refusal_of([&] { clipper.deserialize(bytes); }),
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

// Options may change between runs: a longer or shorter window keeps the latest values, another policy starts anew.
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
    const auto options = quantile_options(window).threshold;
    ThresholdState state = make_threshold_state(options);
    for (std::size_t i = seen.size() - static_cast<std::size_t>(std::min<std::int64_t>(4, window)); i < seen.size(); ++i)
      (void)observe(options, state, seen[i]);
    for (int step = 7; step < 12; ++step) {
      model.fill(step);
      const StepReport report = other.step(model.gradients(), serial_executor());
      EXPECT_EQ(report.layers[0].clip.tau, threshold(options, state)) << "window " << window;
      (void)observe(options, state, report.layers[0].clip.sigma_max);
    }
  }
  Clipper ema(model.parameters());
  ema.deserialize(clipper.serialize());
  const StepReport report = ema.step(model.gradients(), serial_executor());
  EXPECT_EQ(report.layers[0].clip.tau, std::numeric_limits<double>::infinity());
  EXPECT_EQ(report.layers[0].steps, 8);
}

TEST(StateFile, SavesLoadsAndReplaces) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("state.bin");
  ToyModel model = make_small_model();
  for (const int steps : {2, 5}) {
    const Clipper clipper = trained(model, {}, steps);
    clipper.save(path);
    Clipper loaded(model.parameters());
    loaded.load(path);
    EXPECT_EQ(loaded.serialize(), clipper.serialize());
  }
  EXPECT_EQ(directory.entries(), 1) << "no temporary file remains";
}

TEST(StateFile, ErrorsNameThePathAndTheReason) {
  const TemporaryDirectory directory;
  ToyModel model = make_small_model();
  Clipper clipper = trained(model, {}, 2);
  const auto expect = [](const std::string& text, const std::string& path, const std::string& reason) {
    EXPECT_TRUE(text.find(path) != std::string::npos && text.find(reason) != std::string::npos) << text;
  };
  const std::string missing = directory.file("missing.bin");
  expect(refusal_of([&] { clipper.load(missing); }), missing, std::strerror(ENOENT));
  const std::string nowhere = directory.file("nowhere/state.bin");
  expect(refusal_of([&] { clipper.save(nowhere); }), nowhere, std::strerror(ENOENT));
  expect(refusal_of([&] { clipper.save(directory.path().string()); }), directory.path().string(), "not a regular file");
  expect(refusal_of([&] { clipper.load(directory.path().string()); }), directory.path().string(), "not a regular file");
  EXPECT_NE(refusal_of([&] { clipper.save(""); }), "");
  const std::string foreign = directory.file("foreign.bin");
  std::ofstream(foreign) << "a file of somebody else, long enough to hold a header and a checksum of ours";
  expect(refusal_of([&] { clipper.load(foreign); }), foreign, "not a spectralclip state");
  EXPECT_EQ(directory.entries(), 1);
}

// A device is never replaced by a file: as root the rename would succeed.
TEST(StateFile, ADeviceIsNotReplaced) {
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "no /dev/full here";
  ToyModel model = make_small_model();
  const Clipper clipper = trained(model, {}, 2);
  EXPECT_NE(refusal_of([&] { clipper.save("/dev/full"); }).find("not a regular file"), std::string::npos);
  EXPECT_TRUE(fs::is_character_file("/dev/full"));
  const int full = ::open("/dev/full", O_WRONLY | O_CLOEXEC);
  ASSERT_GE(full, 0);
  EXPECT_EQ(write_fully(full, clipper.serialize()), ENOSPC);
  ::close(full);
}

// In a child whose files may not grow beyond a few bytes, the way a full disk or quota shows itself in mid-write.
// Exit codes: 0 all well, otherwise which expectation failed.
int save_without_room(const Clipper& clipper, const std::string& path) {
  std::signal(SIGXFSZ, SIG_IGN);
  const rlimit limit{100, 100};
  if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) return 2;
  const std::string text = refusal_of([&] { clipper.save(path); });
  if (text.empty()) return 3;
  if (text.find(path) == std::string::npos) return 4;
  return text.find(std::strerror(EFBIG)) == std::string::npos ? 5 : 0;
}

TEST(StateFile, AFullDiskLeavesTheOldFile) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("state.bin");
  ToyModel model = make_small_model();
  const Clipper old = trained(model, {}, 2);
  old.save(path);
  const Clipper clipper = trained(model, {}, 5);
  ASSERT_GT(clipper.state_bytes(), 100);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) ::_exit(save_without_room(clipper, path));
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ(directory.entries(), 1) << "the temporary file was removed";
  EXPECT_EQ(read_file(path), old.serialize());
}

TEST(StateFile, AnUnwritableDirectoryLeavesTheOldFile) {
  if (::geteuid() == 0) GTEST_SKIP() << "root writes everywhere";
  const TemporaryDirectory directory;
  const std::string path = directory.file("state.bin");
  ToyModel model = make_small_model();
  const Clipper old = trained(model, {}, 2);
  old.save(path);
  fs::permissions(directory.path(), fs::perms::owner_read | fs::perms::owner_exec);
  const auto text = refusal_of([&] { trained(model, {}, 5).save(path); });
  fs::permissions(directory.path(), fs::perms::owner_all);
  EXPECT_NE(text.find(std::strerror(EACCES)), std::string::npos) << text;
  EXPECT_EQ(read_file(path), old.serialize());
}

}  // namespace
}  // namespace spectralclip
