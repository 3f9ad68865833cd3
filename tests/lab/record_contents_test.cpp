// SPDX-License-Identifier: Apache-2.0
// Results of one kind are neither overwritten nor hidden by another.
#include <gtest/gtest.h>

#include "data_scratch.h"
#include "record/contents.h"
#include "spectralclip/error.h"

namespace spectralclip::lab {
namespace {

using data::write_bytes;

std::string refusal(Contents wanted, const std::string& directory) {
  try {
    require_place_for(wanted, directory);
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Contents, AreToldByTheFiles) {
  const ScratchFolder folder;
  EXPECT_EQ(contents_of(folder.path()), Contents::nothing);
  EXPECT_EQ(contents_of(folder / "absent"), Contents::nothing);
  write_bytes(folder / "some/notes.txt", "");
  EXPECT_EQ(contents_of(folder.path()), Contents::nothing);
  write_bytes(folder / "a/b/seed-1/config.toml", "");
  EXPECT_EQ(contents_of(folder.path()), Contents::folder_of_runs);
  EXPECT_EQ(contents_of(folder / "a/b/seed-1"), Contents::run);
  write_bytes(folder / "a/sweep.toml", "");
  EXPECT_EQ(contents_of(folder / "a"), Contents::sweep);
}

TEST(Contents, AnotherKindIsRefusedByNameInBothDirections) {
  const ScratchFolder folder;
  write_bytes(folder / "run/config.toml", "");
  write_bytes(folder / "sweep/sweep.toml", "");
  write_bytes(folder / "several/seed-1/config.toml", "");
  EXPECT_NAMES(refusal(Contents::sweep, folder / "run"), folder / "run", "holds a run", "a sweep is to be written");
  EXPECT_NAMES(refusal(Contents::run, folder / "sweep"), "holds a sweep", "a run is to be written");
  EXPECT_NAMES(refusal(Contents::run, folder / "several"), "holds a folder of runs");
  EXPECT_NAMES(refusal(Contents::sweep, folder / "several"), "holds a folder of runs");
  EXPECT_NAMES(refusal(Contents::folder_of_runs, folder / "run"), "holds a run");
  for (const Contents same : {Contents::run, Contents::sweep, Contents::folder_of_runs}) {
    const char* const names[] = {"", "run", "sweep", "several"};
    EXPECT_EQ(refusal(same, folder / names[static_cast<int>(same)]), "accepted");
  }
  EXPECT_EQ(refusal(Contents::run, folder / "new"), "accepted");
}

TEST(Contents, NothingGoesInsideOfARunOrASweepExceptTheSweepsOwn) {
  const ScratchFolder folder;
  write_bytes(folder / "run/config.toml", "");
  write_bytes(folder / "sweep/sweep.toml", "");
  EXPECT_NAMES(refusal(Contents::run, folder / "run/inner"), "lies inside of", "which holds a run");
  EXPECT_NAMES(refusal(Contents::run, folder / "run/deeper/inner/"), "which holds a run");
  EXPECT_NAMES(refusal(Contents::run, folder / "sweep/mine"), "which holds a sweep");
  for (const char* const own : {"sweep/trials/0001", "sweep/trials/0001/seed-2", "sweep/best/seed-4"})
    EXPECT_EQ(refusal(Contents::run, folder / own), "accepted") << own;
}

}  // namespace
}  // namespace spectralclip::lab
