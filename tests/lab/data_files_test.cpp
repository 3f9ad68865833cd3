// SPDX-License-Identifier: Apache-2.0
// Sums, mapped files, and where data sets are looked for.
#include <gtest/gtest.h>

#include <algorithm>

#include "data/examine.h"
#include "data/locate.h"
#include "data/mapped_file.h"
#include "data/sha256.h"
#include "data_scratch.h"

namespace spectralclip::lab::data {
namespace {

std::string sum_of(const std::string& text, std::size_t piece) {
  Sha256 sum;
  const auto bytes = std::as_bytes(std::span(text));
  for (std::size_t at = 0; at < bytes.size(); at += piece)
    sum.update(bytes.subspan(at, std::min(piece, bytes.size() - at)));
  return sum.hex();
}

// Sets a variable for one test.
class Environment {
 public:
  Environment(const char* name, const std::string& value) : name_(name) {
    const char* const old = std::getenv(name);
    if (old != nullptr) old_ = old;
    had_ = old != nullptr;
    ::setenv(name, value.c_str(), 1);
  }
  ~Environment() {
    if (had_)
      ::setenv(name_, old_.c_str(), 1);
    else
      ::unsetenv(name_);
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  const char* name_;
  std::string old_;
  bool had_;
};

// The examples of FIPS 180-4 (NIST's "SHA-256" example values), and a million times "a".
TEST(Sha256, GivesTheStandardsExamplesInPiecesOfAnySize) {
  const std::pair<std::string, std::string> examples[] = {
      {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
      {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
      {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
       "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
      {"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrst"
       "u",
       "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1"},
      {std::string(1000000, 'a'), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"}};
  for (const auto& [text, expected] : examples) {
    for (const std::size_t piece :
         {std::size_t{1}, std::size_t{63}, std::size_t{64}, std::size_t{65}, std::size_t{1} << 21}) {
      if (text.size() / piece >= 100000) continue;
      EXPECT_EQ(sum_of(text, piece), expected) << text.size() << " by " << piece;
    }
  }
}

TEST(Sha256, MoreBytesMayFollowAReading) {
  Sha256 sum;
  sum.update(std::as_bytes(std::span("abc", 3)));
  (void)sum.hex();
  sum.update(std::as_bytes(std::span("dbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 53)));
  EXPECT_EQ(sum.hex(), "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

TEST(MappedFile, HasTheBytesAndRefusesWhatIsNoFile) {
  const ScratchFolder folder;
  write_bytes(folder / "a", "some bytes");
  write_bytes(folder / "empty", "");
  MappedFile file(folder / "a");
  EXPECT_EQ(file.size(), 10);
  MappedFile moved = std::move(file);
  EXPECT_EQ(std::memcmp(moved.bytes().data(), "some bytes", 10), 0);
  EXPECT_EQ(MappedFile(folder / "empty").size(), 0);
  EXPECT_NAMES(data_error([&] { MappedFile(folder / "absent"); }), "absent", "No such file");
  EXPECT_NAMES(data_error([&] { MappedFile(folder.path()); }), folder.path().c_str(), "regular file");
}

TEST(Locate, LooksInTheChosenFolderFirstAndSortsByName) {
  const ScratchFolder folder;
  const Environment chosen("SPECTRALCLIP_DATA", folder / "d[1]*");  // a name that a glob would read
  EXPECT_EQ(data_folders()[0], folder / "d[1]*");
  for (const char* const name : {"000010", "000002", "000001"})
    write_bytes(folder.path() + "/d[1]*/fineweb10B/fineweb_train_" + name + ".bin", "x");
  const std::vector<std::string> files = locate("fineweb");
  ASSERT_EQ(files.size(), 3U);
  EXPECT_TRUE(files[0].ends_with("_000001.bin") && files[2].ends_with("_000010.bin"));
}

TEST(Locate, LooksBesideTheRun) {
  const auto folders = data_folders("/somewhere/runs/x/");
  EXPECT_NE(std::ranges::find(folders, "/somewhere/runs/data"), folders.end());
}

TEST(Locate, SaysHowToGetWhatIsMissing) {
  const ScratchFolder folder;
  const Environment chosen("SPECTRALCLIP_DATA", folder / "d"), home("HOME", folder / "h");
  const std::string said = data_error([] { (void)locate("gpt2"); });
  EXPECT_NAMES(said, (folder / "d").c_str(), "../shared/data", "huggingface.co/openai-community/gpt2", "curl ");
  write_bytes(folder / "d/cifar-10-binary.tar.gz", "cut short");
  if (find_data(data_set("cifar10")).empty())
    EXPECT_NAMES(data_error([] { (void)locate("cifar10"); }), "still to be unpacked", "cifar-10-binary.tar.gz");
  EXPECT_THROW((void)data_set("shakespear"), InvalidArgument);
  EXPECT_NAMES(data_error([&] { (void)locate_or(folder / "nothing*", "gpt2"); }), "nothing*");
}

TEST(Locate, EverySetSaysAllThatIsNeededToGetIt) {
  for (const DataSet& set : data_sets()) {
    EXPECT_TRUE(set.home.starts_with("https://")) << set.name;
    EXPECT_NE(set.get.find("https://"), std::string::npos) << set.name;
    EXPECT_FALSE(set.patterns.empty()) << set.name;
    for (const KnownFile& file : set.known) EXPECT_TRUE(file.sha256.size() == 64 && file.bytes > 0) << file.name;
  }
}

TEST(Examine, ADamagedCopyOfAKnownFileIsWrong) {
  const ScratchFolder folder;
  write_bytes(folder / "input.txt", "To be, or not to be: that is the question.");
  const Finding finding = examine(data_set("shakespeare"), folder / "input.txt");
  EXPECT_FALSE(finding.good);
  EXPECT_FALSE(finding.known);
  EXPECT_NAMES(finding.text, "1115394", "86c4e6aa");
  write_bytes(folder / "cifar-10-binary.tar.gz", "cut short");
  EXPECT_FALSE(examine(data_set("cifar10"), folder / "cifar-10-binary.tar.gz").good);
}

TEST(Examine, AFileOfOnesOwnIsJudgedByItsFormat) {
  const ScratchFolder folder;
  write_bytes(folder / "valid.bin",
              llmc_header({20240520, 1, 3}) + bytes_of_values(std::vector<std::uint16_t>{1, 2, 50256}));
  const Finding whole = examine(data_set("wikitext2"), folder / "valid.bin");
  EXPECT_TRUE(whole.good);
  EXPECT_NAMES(whole.text, "3 GPT-2 tokens", "not the known valid.bin");
  write_bytes(folder / "x.bin", llmc_header({20240520, 1, 3}) + "ab");
  const Finding cut = examine(data_set("wikitext2"), folder / "x.bin");
  EXPECT_FALSE(cut.good);
  EXPECT_NAMES(cut.text, "truncated", "1030");
}

TEST(Examine, KnowsTheFilesAtHand) {
  const std::string text = data_at_hand("shakespeare/input.txt"), tokens = data_at_hand("wikitext2/valid.bin");
  if (text.empty() || tokens.empty()) GTEST_SKIP() << "no data in SPECTRALCLIP_DATA or ../shared/data";
  EXPECT_TRUE(examine(data_set("shakespeare"), text).known);
  EXPECT_TRUE(examine(data_set("wikitext2"), tokens).known);
}

}  // namespace
}  // namespace spectralclip::lab::data
