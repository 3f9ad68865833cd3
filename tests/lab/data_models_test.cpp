// SPDX-License-Identifier: Apache-2.0
// Model files: safetensors and llm.c's. Files of the real safetensors and NumPy: tests/python/test_data_files.py.
#include <gtest/gtest.h>

#include <limits>

#include "data/llmc_model.h"
#include "data/safetensors.h"
#include "data_scratch.h"

namespace spectralclip::lab::data {
namespace {

using Shape = std::vector<std::int64_t>;

std::string safetensors(const std::string& header, const std::string& data = "") {
  return bytes_of_values(std::vector<std::uint64_t>{header.size()}) + header + data;
}

std::string refusal(const std::string& bytes) {
  return data_error([&] { (void)parse_safetensors(std::as_bytes(std::span(bytes)), "m.safetensors"); });
}

const std::string kPair =
    R"({"b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]},"a":{"dtype":"F16","shape":[1,2],"data_offsets":[0,4]}})";

TEST(TensorView, SixteenBitFloatsWidenExactlyAndRoundBack) {
  std::vector<float> values = {0.0F, -0.0F, 1.0F, -1.5F, 65504.0F, 6e-8F, std::numeric_limits<float>::infinity()};
  for (const ElementType type : {ElementType::f32, ElementType::f16, ElementType::bf16}) {
    const std::vector<std::byte> bytes = from_float(values, type);
    std::vector<float> once(values.size()), twice(values.size());
    to_float({"x", type, {7}, bytes}, once);
    const std::vector<std::byte> again = from_float(once, type);
    EXPECT_EQ(again, bytes) << to_string(type);
    EXPECT_EQ(once[3], -1.5F);
  }
  std::vector<std::byte> unaligned(9);
  const float x = 3.25F;
  std::memcpy(unaligned.data() + 1, &x, 4);
  std::vector<float> out(1);
  to_float({"x", ElementType::f32, {}, std::span(unaligned).subspan(1, 4)}, out);
  EXPECT_EQ(out[0], 3.25F);
  EXPECT_NAMES(data_error([&] {
                 to_float({"x", ElementType::i8, {1}, std::span(unaligned).first(1)}, out);
               }),
               "I8", "F32");
}

TEST(Safetensors, GivesViewsInTheOrderOfTheData) {
  const ScratchFolder folder;
  const std::vector<float> b = {1.5F, -2.0F};
  write_bytes(folder / "m.safetensors", safetensors(kPair, std::string("\x00\x3c\x00\xc0", 4) + bytes_of_values(b)));
  const Safetensors file(folder / "m.safetensors");
  ASSERT_EQ(file.tensors().size(), 2U);
  EXPECT_EQ(file.tensors()[0].name, "a");
  std::vector<float> a(2), read(2);
  to_float(file.require("a", Shape{1, 2}), a);
  to_float(file.require("b", Shape{2}), read);
  EXPECT_EQ(a, (std::vector<float>{1.0F, -2.0F}));
  EXPECT_EQ(read, b);
  EXPECT_EQ(file.find("c"), nullptr);
  EXPECT_NAMES(data_error([&] { (void)file.require("c", Shape{2}); }), "m.safetensors", "\"c\"", "[2]");
  EXPECT_NAMES(data_error([&] { (void)file.require("b", Shape{2, 1}); }), "\"b\"", "shape [2]", "[2, 1] was expected");
}

TEST(Safetensors, ReadsBackWhatItWrote) {
  const ScratchFolder folder;
  std::vector<float> values(30);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i) - 7.25F;
  const auto bf16 = from_float(std::span(values).first(6), ElementType::bf16);
  const std::vector<TensorView> tensors = {
      {"w \"quoted\" ß", ElementType::f32, {5, 6}, std::as_bytes(std::span(values))},
      {"h", ElementType::bf16, {3, 2}, bf16},
      {"none", ElementType::i64, {0, 4}, {}},
      {"scalar", ElementType::f32, {}, std::as_bytes(std::span(values).first(1))}};
  write_safetensors(folder / "m.safetensors", tensors, {{"format", "pt"}});
  const Safetensors file(folder / "m.safetensors");
  EXPECT_EQ(file.metadata().at("format"), "pt");
  ASSERT_EQ(file.tensors().size(), tensors.size());
  for (const TensorView& tensor : tensors) {
    const TensorView& read = file.require(tensor.name, tensor.shape);
    EXPECT_EQ(read.type, tensor.type);
    EXPECT_TRUE(std::ranges::equal(read.bytes, tensor.bytes)) << tensor.name;
  }
  const std::string before = read_bytes(folder / "m.safetensors");
  const std::vector<TensorView> twice = {tensors[0], tensors[0]},
                                short_one = {{"x", ElementType::f32, {31}, tensors[0].bytes}};
  EXPECT_THROW(write_safetensors(folder / "m.safetensors", twice), InvalidArgument);
  EXPECT_THROW(write_safetensors(folder / "m.safetensors", short_one), InvalidArgument);
  EXPECT_EQ(read_bytes(folder / "m.safetensors"), before) << "a refused write changed the file";
}

TEST(Safetensors, EveryCutIsRefused) {
  const std::string whole = safetensors(kPair, std::string(12, 'x'));
  ASSERT_EQ(refusal(whole), "nothing was thrown");
  for (std::size_t length = 0; length < whole.size(); ++length)
    EXPECT_NAMES(refusal(whole.substr(0, length)), "m.safetensors");
  EXPECT_NAMES(refusal(whole + "x"), "too long", "13", "12");
}

TEST(Safetensors, AHeaderThatLiesIsRefusedByName) {
  for (const std::uint64_t length : {std::uint64_t{1} << 40, ~std::uint64_t{0}, std::uint64_t{100'000'001}})
    EXPECT_NAMES(refusal(bytes_of_values(std::vector<std::uint64_t>{length}) + "{}"), std::to_string(length).c_str());
  EXPECT_NAMES(refusal(safetensors("[]")), "{");
  EXPECT_NAMES(refusal(safetensors("{\"a\":")), "JSON");
  EXPECT_NAMES(refusal(safetensors(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"a":1})", "abcd")),
               "\"a\" twice");
  EXPECT_NAMES(refusal(safetensors(R"({"a":{"dtype":"F99","shape":[1],"data_offsets":[0,4]}})", "abcd")), "F99");
  EXPECT_NAMES(refusal(safetensors(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", "abcd")), "[2]",
               "4 bytes");
  EXPECT_NAMES(refusal(safetensors(R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", "abcd")), "-1");
  EXPECT_NAMES(refusal(safetensors(R"({"a":{"dtype":"F32","shape":[1e9],"data_offsets":[0,4]}})", "abcd")), "shape");
  EXPECT_NAMES(refusal(safetensors(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", "abcd")),
               "data_offsets");
  EXPECT_NAMES(refusal(safetensors(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"x":1}})", "abcd")),
               "nothing else");
  EXPECT_NAMES(refusal(safetensors(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", "abcdefgh")), "byte 4",
               "hole");
  // Products that wrap around 2^64 to the very size.
  EXPECT_NAMES(refusal(safetensors(R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}})")),
               "does not fit");
  EXPECT_NAMES(refusal(safetensors(std::string(R"({"a":)") + std::string(1000, '[') + "}")), "nested");
  EXPECT_NAMES(refusal(safetensors(R"({"__metadata__":{"a":1}})")), "__metadata__");
}

const Gpt2Shape kSmall = {
    .positions = 3, .vocabulary = 5, .layers = 2, .heads = 2, .channels = 4, .padded_vocabulary = 6};

std::vector<std::vector<std::byte>> small_tensors(ElementType type) {
  std::vector<std::vector<std::byte>> all;
  float next = 0;
  for (const Shape& shape : llmc_shapes(kSmall)) {
    std::vector<float> values(static_cast<std::size_t>(*bytes_of(ElementType::u8, shape)));
    for (float& value : values) value = next++ / 8;
    all.push_back(from_float(values, type));
  }
  return all;
}

std::vector<TensorView> views(const std::vector<std::vector<std::byte>>& data, ElementType type) {
  std::vector<TensorView> all;
  const auto shapes = llmc_shapes(kSmall);
  for (std::size_t i = 0; i < data.size(); ++i) all.push_back({"", type, shapes[i], data[i]});
  return all;
}

// GPT-2's count: 124,439,808 with 50,257 rows; llm.c pads the vocabulary to 50,304 rows.
TEST(LlmcModel, CountsGpt2sParameters) {
  std::int64_t count = 0;
  for (const Shape& shape : llmc_shapes({})) count += *bytes_of(ElementType::u8, shape);
  EXPECT_EQ(count, 124439808 + 47 * 768);
}

TEST(LlmcModel, ReadsBackWhatItWroteInBothVersions) {
  const ScratchFolder folder;
  for (const ElementType type : {ElementType::f32, ElementType::bf16}) {
    const auto data = small_tensors(type);
    write_llmc_model(folder / "m.bin", kSmall, views(data, type));
    const LlmcModelFile file(folder / "m.bin");
    EXPECT_EQ(file.model().shape, kSmall);
    EXPECT_EQ(file.model().type, type);
    for (std::size_t i = 0; i < 16; ++i) {
      EXPECT_EQ(file.model().tensors[i].name, kLlmcTensors[i]);
      EXPECT_TRUE(std::ranges::equal(file.model().tensors[i].bytes, data[i])) << i;
    }
    const std::string bytes = read_bytes(folder / "m.bin");
    EXPECT_EQ(bytes.substr(0, 1024), llmc_header({20240326, type == ElementType::f32 ? 3 : 5, 3, 5, 2, 2, 4, 6}));
  }
}

TEST(LlmcModel, IsRefusedWithWhatIsWrong) {
  const auto refusal_of = [](const std::string& bytes) {
    return data_error([&] { (void)parse_llmc_model(std::as_bytes(std::span(bytes)), "m.bin"); });
  };
  const std::vector<std::int32_t> header = {20240326, 3, 3, 5, 2, 2, 4, 6};
  const auto with = [&](std::size_t at, std::int32_t value) {
    auto changed = header;
    changed[at] = value;
    return llmc_header(changed);
  };
  EXPECT_NAMES(refusal_of("x"), "m.bin", "1 bytes");
  EXPECT_NAMES(refusal_of(with(0, 20240520)), "20240520", "20240326");
  EXPECT_NAMES(refusal_of(with(1, 4)), "version 4");
  for (std::size_t i = 2; i < 8; ++i) {
    EXPECT_NAMES(refusal_of(with(i, 0)), "size is 0");
    EXPECT_NAMES(refusal_of(with(i, -7)), "size is -7");
  }
  EXPECT_NAMES(refusal_of(with(5, 3)), "3 heads", "4 channels");
  EXPECT_NAMES(refusal_of(with(7, 4)), "padded vocabulary 4");
  EXPECT_NAMES(refusal_of(with(2, 3)), "0 bytes of parameters");
  EXPECT_NAMES(refusal_of(llmc_header({20240326, 3, 536870911, 536870911, 536870911, 1, 536870911, 536870911})),
               "more than any file has");
  const auto data = small_tensors(ElementType::f32);
  auto tensors = views(data, ElementType::f32);
  tensors[4].shape = {2, 4, 12};
  const ScratchFolder folder;
  EXPECT_THROW(write_llmc_model(folder / "m.bin", kSmall, tensors), InvalidArgument);
  EXPECT_FALSE(std::filesystem::exists(folder / "m.bin"));
}

}  // namespace
}  // namespace spectralclip::lab::data
