// SPDX-License-Identifier: Apache-2.0
// The state file on a real file system: replaced whole or not at all, whatever fails.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "clipper/atomic_file.h"
#include "clipper/trained_clipper.h"

namespace spectralclip {
namespace {

namespace fs = std::filesystem;
using testing::make_small_model;
using testing::refusal_of;
using testing::ToyModel;
using testing::trained;

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
