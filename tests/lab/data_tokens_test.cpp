// SPDX-License-Identifier: Apache-2.0
// Texts, nanoGPT's folders and token shards as rows of tokens.
#include <gtest/gtest.h>

#include <numeric>

#include "data/nanogpt_meta.h"
#include "data/token_data.h"
#include "data/token_shards.h"
#include "data_scratch.h"

namespace spectralclip::lab::data {
namespace {

using Values = std::vector<std::uint16_t>;

Values all_of(const Tokens& tokens) {
  Values values(static_cast<std::size_t>(tokens.size()));
  tokens.copy(0, std::span(values));
  return values;
}

std::string shard(const Values& tokens, std::int32_t said = -1) {
  return llmc_header({20240520, 1, said < 0 ? static_cast<std::int32_t>(tokens.size()) : said}) +
         bytes_of_values(tokens);
}

// pickle.dumps({"vocab_size": 3, "itos": {0: "\n", 1: "a", 2: "ß"}, "stoi": {"\n": 0, "a": 1, "ß": 2}}, protocol=4)
std::string meta_pickle() {
  using namespace std::string_literals;
  return "\x80\x04\x95\x47\x00\x00\x00\x00\x00\x00\x00}\x94(\x8c\nvocab_size\x94K\x03\x8c\x04itos\x94}\x94("
         "K\x00\x8c\x01\n"
         "\x94K\x01\x8c\x01"
         "a\x94K\x02\x8c\x02\xc3\x9f\x94u\x8c\x04stoi\x94}\x94(h\x04K\x00h\x05K\x01h\x06K\x02uu."s;
}

TEST(Tokens, CopyRunsOverTheEndsOfShardsFromEveryPlace) {
  Values values(23);
  std::iota(values.begin(), values.end(), std::uint16_t{7});
  const auto owner = std::make_shared<const Values>(values);
  const std::span<const std::uint16_t> all(*owner);
  const Tokens tokens({all.subspan(0, 1), all.subspan(1, 0), all.subspan(1, 9), all.subspan(10, 13)}, owner);
  ASSERT_EQ(tokens.size(), 23);
  EXPECT_EQ(tokens.shards(), 3) << "an empty shard is none";
  for (std::size_t begin = 0; begin <= 23; ++begin) {
    for (std::size_t size = 0; begin + size <= 23; ++size) {
      std::vector<std::int64_t> out(size);
      tokens.copy(static_cast<std::int64_t>(begin), std::span(out));
      for (std::size_t i = 0; i < size; ++i) ASSERT_EQ(out[i], static_cast<std::int64_t>(7 + begin + i));
      const Values part = all_of(tokens.slice(static_cast<std::int64_t>(begin), static_cast<std::int64_t>(size)));
      ASSERT_EQ(part, Values(values.begin() + static_cast<std::ptrdiff_t>(begin),
                             values.begin() + static_cast<std::ptrdiff_t>(begin + size)));
    }
  }
  std::vector<std::int64_t> two(2);
  EXPECT_THROW(tokens.copy(22, std::span(two)), InvalidArgument);
  EXPECT_THROW(tokens.copy(-1, std::span(two)), InvalidArgument);
  EXPECT_THROW((void)tokens.slice(1, std::numeric_limits<std::int64_t>::max()), InvalidArgument);
  EXPECT_EQ(tokens.largest(), 29);
  EXPECT_EQ(Tokens().largest(), -1);
}

TEST(Vocabulary, SortsCodePointsAndReadsBackWhatItWrote) {
  const std::string text = "z\n€aß𝄞a";
  const Vocabulary vocabulary({U'z', U'\n', U'€', U'a', U'ß', U'𝄞', U'a'});
  EXPECT_EQ(vocabulary.symbols(), (std::vector<char32_t>{U'\n', U'a', U'z', U'ß', U'€', U'𝄞'}));
  const Values tokens = vocabulary.encode(text);
  EXPECT_EQ(tokens, (Values{2, 0, 4, 1, 3, 5, 1}));
  EXPECT_EQ(vocabulary.decode(std::span<const std::uint16_t>(tokens)), text);
  EXPECT_NAMES(data_error([&] { (void)vocabulary.encode("azb"); }), "byte 2", "b");
  const std::vector<std::int64_t> wrong = {0, 6};
  EXPECT_THROW((void)vocabulary.decode(std::span<const std::int64_t>(wrong)), InvalidArgument);
  EXPECT_NAMES(data_error([] { Vocabulary({}); }), "at least one");
}

// Truncated, stray, overlong, a surrogate, above the last code point.
TEST(Text, RefusesWhatIsNoUtf8AndNamesTheByte) {
  const ScratchFolder folder;
  for (const char* const bad : {"\xc3", "\x80", "\xc0\xaf", "\xe0\x80\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xff",
                                "\xe2\x82", "\xf0\x9d\x84"}) {
    write_bytes(folder / "t.txt", std::string(30, 'a') + bad);
    EXPECT_NAMES(data_error([&] { (void)open_text(folder / "t.txt"); }), "t.txt", "byte 30");
  }
}

TEST(Text, IsCutAsNanoGptCutsIt) {
  const ScratchFolder folder;
  for (const int n : {20, 29, 31, 99}) {
    std::string text(static_cast<std::size_t>(n), 'b');
    text[0] = 'a';
    write_bytes(folder / "t.txt", text);
    const TokenData data = open_text(folder / "t.txt");
    EXPECT_EQ(data.train.size(), static_cast<int>(0.9 * n));
    EXPECT_EQ(data.validation.size(), n - static_cast<int>(0.9 * n));
    EXPECT_EQ(data.vocabulary_size, 2);
  }
  write_bytes(folder / "t.txt", "");
  EXPECT_NAMES(data_error([&] { (void)open_text(folder / "t.txt"); }), "t.txt is empty");
  write_bytes(folder / "t.txt", "short");
  EXPECT_NAMES(data_error([&] { (void)open_text(folder / "t.txt"); }), "5 characters", "20");
}

// 65 symbols, 1,003,854 and 111,540 characters: nanoGPT's shakespeare_char.
TEST(Text, TinyShakespeareIsNanoGpts) {
  const std::string path = data_at_hand("shakespeare/input.txt");
  if (path.empty()) GTEST_SKIP() << "no shakespeare/input.txt in SPECTRALCLIP_DATA or ../shared/data";
  const TokenData data = open_text(path);
  EXPECT_EQ(data.vocabulary_size, 65);
  EXPECT_EQ(data.train.size(), 1003854);
  EXPECT_EQ(data.validation.size(), 111540);
  EXPECT_EQ(data.characters->symbols().front(), U'\n');
  EXPECT_EQ(data.characters->symbols().back(), U'z');
  const Values first = all_of(data.train.slice(0, 14));
  EXPECT_EQ(data.characters->decode(std::span<const std::uint16_t>(first)), "First Citizen:");
  EXPECT_EQ(first, (Values{18, 47, 56, 57, 58, 1, 15, 47, 58, 47, 64, 43, 52, 10}));
}

TEST(NanoGpt, ReadsBareTokensAndTheSymbolsBesideThem) {
  const ScratchFolder folder;
  write_bytes(folder / "train.bin", bytes_of_values(Values{0, 1, 2, 1}));
  write_bytes(folder / "val.bin", bytes_of_values(Values{1, 2}));
  EXPECT_EQ(open_nanogpt(folder.path()).vocabulary_size, 3);
  EXPECT_EQ(open_nanogpt(folder.path(), 50257).vocabulary_size, 50257);
  write_bytes(folder / "meta.pkl", meta_pickle());
  const TokenData data = open_tokens(folder.path());
  EXPECT_EQ(all_of(data.train), (Values{0, 1, 2, 1}));
  EXPECT_EQ(data.characters->symbols(), (std::vector<char32_t>{U'\n', U'a', U'ß'}));
  write_bytes(folder / "val.bin", bytes_of_values(Values{1, 2, 3}));
  EXPECT_NAMES(data_error([&] { (void)open_nanogpt(folder.path()); }), "val.bin", "token 2 is 3", "vocabulary of 3");
  write_bytes(folder / "val.bin", "odd");
  EXPECT_NAMES(data_error([&] { (void)open_nanogpt(folder.path()); }), "val.bin", "3 bytes");
  write_bytes(folder / "val.bin", "");
  EXPECT_NAMES(data_error([&] { (void)open_nanogpt(folder.path()); }), "val.bin is empty");
}

TEST(NanoGpt, RefusesEveryCutOfTheSymbolsAndWhatWouldCallSomething) {
  const std::string whole = meta_pickle();
  const auto parse = [](const std::string& bytes) {
    return parse_nanogpt_meta(std::as_bytes(std::span(bytes)), "meta.pkl");
  };
  EXPECT_EQ(parse(whole).size(), 3);
  for (std::size_t length = 0; length < whole.size(); ++length)
    EXPECT_THROW((void)parse(whole.substr(0, length)), DataError) << length;
  EXPECT_NAMES(data_error([&] { (void)parse("cos\nsystem\n(S'true'\ntR."); }), "meta.pkl", "byte 1", "opcode 99");
  std::string swapped = whole;
  swapped[swapped.find("\x01"
                       "a") +
          1] = '\x05';  // below the symbol before it: no longer sorted
  EXPECT_NAMES(data_error([&] { (void)parse(swapped); }), "token 1", "sorted");
}

TEST(Shards, AreReadInTheOrderOfTheirNames) {
  const ScratchFolder folder;
  write_bytes(folder / "s_000002.bin", shard({5, 6}));
  write_bytes(folder / "s_000001.bin", shard({1, 2, 3}));
  const Tokens tokens = open_token_shards(folder / "s_*.bin", 7);
  EXPECT_EQ(all_of(tokens), (Values{1, 2, 3, 5, 6}));
  write_token_shard(folder / "s_000003.bin", Values{6, 0});
  EXPECT_EQ(read_bytes(folder / "s_000003.bin"), shard({6, 0}));
  const TokenData data = open_shards(folder / "s_00000[12].bin", folder / "s_000003.bin", 7);
  EXPECT_EQ(data.train.size(), 5);
  EXPECT_EQ(data.validation.size(), 2);
}

TEST(Shards, AreRefusedWithWhatIsWrongAndWhatWasExpected) {
  const ScratchFolder folder;
  const std::string path = folder / "s.bin";
  const auto refusal = [&](const std::string& bytes) {
    write_bytes(path, bytes);
    return data_error([&] { (void)open_token_shards(path, 50257); });
  };
  const Values tokens = {1, 2, 3};
  EXPECT_NAMES(refusal(""), "s.bin", "0 bytes", "1024");
  EXPECT_NAMES(refusal(shard(tokens).substr(0, 1023)), "1023 bytes");
  EXPECT_NAMES(refusal(shard(tokens).substr(0, 1029)), "truncated", "1029", "1030", "3 tokens");
  EXPECT_NAMES(refusal(shard(tokens) + "x"), "too long", "1031");
  EXPECT_NAMES(refusal(shard(tokens, 2147483647)), "truncated", "4294968318");
  EXPECT_NAMES(refusal(llmc_header({20240520, 1, -3})), "-3 tokens");
  EXPECT_NAMES(refusal(llmc_header({20240520, 1, 0})), "0 tokens");
  EXPECT_NAMES(refusal(llmc_header({20240520, 2, 0})), "version 2");
  EXPECT_NAMES(refusal(llmc_header({20240801, 7, 1}) + "abcd"), "Llama 3");
  EXPECT_NAMES(refusal(llmc_header({42, 1, 0})), "begins with 42", "20240520");
  EXPECT_NAMES(refusal(shard({1, 50257})), "token 1 is 50257", "50257");
  EXPECT_NAMES(data_error([&] { (void)open_token_shards(folder / "none_*.bin", 10); }), "none_*.bin");
  EXPECT_THROW(write_token_shard(folder / "empty.bin", {}), InvalidArgument);
  EXPECT_FALSE(std::filesystem::exists(folder / "empty.bin"));
}

TEST(Shards, WikiText2AtHand) {
  const std::string path = data_at_hand("wikitext2/valid.bin");
  if (path.empty()) GTEST_SKIP() << "no wikitext2/valid.bin in SPECTRALCLIP_DATA or ../shared/data";
  const TokenData data = open_tokens(path);
  EXPECT_EQ(data.train.size() + data.validation.size(), 258659);
  EXPECT_EQ(data.vocabulary_size, 50257);
  EXPECT_EQ(all_of(data.train.slice(0, 3)), (Values{220, 198, 796})) << "a space, a line end, \" =\"";
}

}  // namespace
}  // namespace spectralclip::lab::data
