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

void write_checkpoint(const std::string& path, const CheckpointHead& head, const Sections& sections) {
  CheckpointWriter writer(path, head);
  for (const auto& [name, bytes] : sections) {
    writer.begin(name);
    for (const std::uint8_t byte : bytes) writer.write({&byte, 1});  // in the smallest pieces
  }
  writer.commit();
}

TEST(Checkpoint, RoundTripsAndRefusesEveryCutAndEveryFlippedByte) {
  const ScratchFolder folder;
  const std::string path = folder / "checkpoint.bin", other = folder / "other.bin";
  const Sections sections{{"one", {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}}, {"none", {}}};
  write_checkpoint(path, {"a = 1\n", 41, 2.5}, sections);
  const CheckpointFile read(path);
  EXPECT_EQ(read.head().config, "a = 1\n");
  EXPECT_EQ(read.head().step, 41);
  EXPECT_EQ(read.head().seconds, 2.5);
  for (const auto& [name, bytes] : sections) EXPECT_EQ(read.bytes(name), bytes) << name;
  Bytes part(3);
  read.read("one", 8, part);
  EXPECT_EQ(part, Bytes({9, 10, 11}));
  EXPECT_THROW(read.read("one", 9, part), StateFileError) << "it went on into the next section";
  EXPECT_THROW((void)read.size("two"), StateFileError);
  const std::string bytes = text_of(path);
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    write(other, bytes.substr(0, length));
    EXPECT_THROW((void)CheckpointFile(other), StateFileError) << "cut to " << length;
  }
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    std::string flipped = bytes;
    flipped[i] = static_cast<char>(flipped[i] ^ 0x10);
    write(other, flipped);
    EXPECT_THROW((void)CheckpointFile(other), StateFileError) << "byte " << i;
  }
}

TEST(Checkpoint, IsTheOldOneUntilItIsCommitted) {
  const ScratchFolder folder;
  const std::string path = folder / "checkpoint.bin";
  write_checkpoint(path, {"", 1, 0}, {{"one", {1}}});
  {
    CheckpointWriter writer(path, {"", 2, 0});
    writer.put("one", Bytes{2});
  }
  EXPECT_EQ(CheckpointFile(path).head().step, 1);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1) << "a temporary file is left";
}

TEST(StreamChecksum, DoesNotDependOnThePiecesAndSeesTheLength) {
  Bytes bytes(37);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint8_t>(i * 7);
  StreamChecksum whole, zero;
  whole.update(bytes);
  for (std::size_t cut = 0; cut <= bytes.size(); ++cut) {
    StreamChecksum parts;
    parts.update(std::span(bytes).first(cut));
    parts.update(std::span(bytes).subspan(cut));
    EXPECT_EQ(parts.value(), whole.value()) << cut;
  }
  zero.update(bytes);
  zero.update(Bytes{0});
  EXPECT_NE(zero.value(), whole.value());
}

TEST(Checkpoint, NamesTheFile) {
  const ScratchFolder folder;
  write(folder / "checkpoint.bin", "nonsense");
  EXPECT_NE(state_error([&] { (void)CheckpointFile(folder / "checkpoint.bin"); }).find("checkpoint.bin"),
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
    run.save(1, [](StateWriter& out) { out.put("state", Bytes{7}); });
    run.metrics(2, {{"loss", 1.25}});
    run.flush();
  }
  RunDirectory run(folder.path());
  ASSERT_TRUE(run.checkpoint().has_value());
  EXPECT_EQ(run.checkpoint()->head().step, 1);
  run.open(*run.config(), run.checkpoint()->head().step, 3.0);
  EXPECT_GE(run.seconds(), 3.0);
  const std::string metrics = text_of(folder / "metrics.jsonl");
  EXPECT_TRUE(metrics.starts_with("{\"step\":1,\"seconds\":")) << metrics;
  EXPECT_EQ(metrics.find("\"step\":2"), std::string::npos) << "a line after the checkpoint was kept";
}

}  // namespace
}  // namespace spectralclip::lab
