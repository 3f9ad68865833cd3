// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>

#include "record/checkpoint.h"
#include "record/jsonl_file.h"
#include "record/lock.h"
#include "record/run_directory.h"
#include "scratch_folder.h"
#include "spectralclip/error.h"

namespace spectralclip::lab {
namespace {

using nlohmann::ordered_json;

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}
void write(const std::string& path, const std::string& text) { std::ofstream(path) << text; }

template <class Call>
std::string state_error(Call&& call) {
  try {
    call();
  } catch (const StateFileError& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST(JsonlFile, CutsWhatCameAfterTheStepAndWhatWasTorn) {
  const ScratchFolder folder;
  const std::string path = folder / "m.jsonl";
  write(path, "{\"step\":1}\n{\"step\":2}\n{\"step\":3}\n{\"st");
  JsonlFile(path, 2).append({{"step", 3}, {"again", true}});  // not flushed: lost, as after a kill
  EXPECT_EQ(text_of(path), "{\"step\":1}\n{\"step\":2}\n");
  {
    JsonlFile file(path, 2);
    file.append({{"step", 3}, {"loss", std::numeric_limits<double>::quiet_NaN()}});
    file.sync();
  }
  EXPECT_EQ(text_of(path), "{\"step\":1}\n{\"step\":2}\n{\"step\":3,\"loss\":null}\n");
  JsonlFile(path, -1);
  EXPECT_EQ(text_of(path), "");
}

TEST(JsonlFile, RefusesADamagedLineThatItShouldKeep) {
  const ScratchFolder folder;
  const std::string path = folder / "m.jsonl", damaged = "{\"step\":1}\n{\"step\":tw}\n{\"step\":3}\n";
  write(path, damaged);
  EXPECT_NE(state_error([&] { JsonlFile(path, 3); }).find("m.jsonl, line 2 is damaged"), std::string::npos);
  EXPECT_EQ(text_of(path), damaged) << "a refused file was changed";
}

TEST(Checkpoint, RoundTripsAndRefusesEveryCutAndEveryFlippedByte) {
  const Checkpoint checkpoint{"a = 1\n", 41, 2.5, {{"one", {1, 2, 3}}, {"none", {}}}};
  const std::vector<std::uint8_t> bytes = encode(checkpoint);
  const Checkpoint read = decode(bytes);
  EXPECT_EQ(read.config, checkpoint.config);
  EXPECT_EQ(read.step, 41);
  EXPECT_EQ(read.seconds, 2.5);
  EXPECT_EQ(read.sections, checkpoint.sections);
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    const std::vector<std::uint8_t> cut(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(length));
    EXPECT_THROW((void)decode(cut), StateFileError) << "cut to " << length;
  }
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    std::vector<std::uint8_t> flipped = bytes;
    flipped[i] ^= 0x10;
    EXPECT_THROW((void)decode(flipped), StateFileError) << "byte " << i;
  }
}

TEST(Checkpoint, NamesTheFile) {
  const ScratchFolder folder;
  write(folder / "checkpoint.bin", "nonsense");
  EXPECT_NE(state_error([&] { (void)read_checkpoint(folder / "checkpoint.bin"); }).find("checkpoint.bin"),
            std::string::npos);
}

TEST(DirectoryLock, IsHeldByOneProcessAndNamesIt) {
  const ScratchFolder folder;
  const DirectoryLock lock(folder.path());
  const pid_t child = ::fork();
  if (child == 0) {
    const std::string message = state_error([&] { const DirectoryLock other(folder.path()); });
    ::_exit(message.find("in use by process " + std::to_string(::getppid())) != std::string::npos ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(DirectoryLock, EndsWithItsOwner) {
  const ScratchFolder folder;
  { const DirectoryLock lock(folder.path()); }
  EXPECT_NO_THROW(const DirectoryLock again(folder.path()));
}

TEST(RunDirectory, LinesStartWithStepAndSurviveReopening) {
  const ScratchFolder folder;
  {
    RunDirectory run(folder.path());
    EXPECT_FALSE(run.config().has_value());
    run.open("task = \"x\"\n", 0, 0);
    run.metrics(1, {{"loss", 1.5}});
    run.layers(1, {{"layers", ordered_json::array()}});
    run.save(1, {{"state", {7}}});
    run.metrics(2, {{"loss", 1.25}});
    run.flush();
  }
  RunDirectory run(folder.path());
  ASSERT_TRUE(run.checkpoint().has_value());
  EXPECT_EQ(run.checkpoint()->step, 1);
  run.open(*run.config(), run.checkpoint()->step, 3.0);
  EXPECT_GE(run.seconds(), 3.0);
  const std::string metrics = text_of(folder / "metrics.jsonl");
  EXPECT_TRUE(metrics.starts_with("{\"step\":1,\"seconds\":")) << metrics;
  EXPECT_EQ(metrics.find("\"step\":2"), std::string::npos) << "a line after the checkpoint was kept";
}

}  // namespace
}  // namespace spectralclip::lab
