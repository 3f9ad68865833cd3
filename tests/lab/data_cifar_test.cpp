// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdlib>

#include "data/cifar10.h"
#include "data_scratch.h"

namespace spectralclip::lab::data {
namespace {

// Record i: label (first + i) % 10, byte j of the image (7 i + j) % 251.
std::string batch(int first, int count) {
  std::string bytes;
  for (int i = 0; i < count; ++i) {
    bytes += static_cast<char>((first + i) % 10);
    for (int j = 0; j < kCifarPixels; ++j) bytes += static_cast<char>((7 * (first + i) + j) % 251);
  }
  return bytes;
}

TEST(Cifar10, ReadsImagesAndLabelsOverTheEndsOfBatches) {
  const ScratchFolder folder;
  write_bytes(folder / "data_batch_1.bin", batch(0, 3));
  write_bytes(folder / "data_batch_2.bin", batch(3, 4));
  write_bytes(folder / "test_batch.bin", batch(7, 2));
  const Cifar10 data = open_cifar10(folder.path());
  ASSERT_EQ(data.train.size(), 7);
  EXPECT_EQ(data.test.size(), 2);
  std::vector<std::uint8_t> images(4 * kCifarPixels);
  std::vector<std::int64_t> labels(4);
  data.train.copy_images(1, images);
  data.train.copy_labels(1, labels);
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(labels[static_cast<std::size_t>(i)], i + 1);
    for (int j = 0; j < kCifarPixels; ++j)
      ASSERT_EQ(images[static_cast<std::size_t>(i * kCifarPixels + j)], (7 * (i + 1) + j) % 251);
  }
  EXPECT_EQ(data.test.label(1), 8);
  EXPECT_EQ(data.origin, CifarOrigin::other);
  EXPECT_NAMES(data.source, folder.path().c_str(), "7 + 2 images");
  EXPECT_THROW((void)data.train.label(7), InvalidArgument);
  EXPECT_THROW(data.train.copy_images(4, images), InvalidArgument);
  EXPECT_THROW(data.train.copy_images(0, std::span(images).first(5)), InvalidArgument);
}

TEST(Cifar10, IsRefusedWithWhatIsWrong) {
  const ScratchFolder folder;
  EXPECT_NAMES(data_error([&] { (void)open_cifar10(folder.path()); }), folder.path().c_str(), "data_batch_1.bin");
  write_bytes(folder / "data_batch_1.bin", batch(0, 2));
  EXPECT_NAMES(data_error([&] { (void)open_cifar10(folder.path()); }), "test_batch.bin");
  const auto refusal = [&](const std::string& bytes) {
    write_bytes(folder / "test_batch.bin", bytes);
    return data_error([&] { (void)open_cifar10(folder.path()); });
  };
  EXPECT_NAMES(refusal(""), "test_batch.bin is empty");
  EXPECT_NAMES(refusal(batch(0, 2).substr(0, 6000)), "6000 bytes", "truncated");
  EXPECT_NAMES(refusal(std::string(2 * kCifarPixels, 'x')), "without their labels");
  std::string bad = batch(0, 2);
  bad[kCifarRecord] = 10;
  EXPECT_NAMES(refusal(bad), "record 1 has label 10", "0 to 9");
}

// Ten thousand labels that are not the official ones, and the prepared copy where there is one.
TEST(Cifar10, ARecodedCopyIsNamedAsOne) {
  const std::string blank(10000 * kCifarRecord, '\0');
  EXPECT_EQ(cifar_origin(std::as_bytes(std::span(blank))), CifarOrigin::other);
  const std::string folder = data_at_hand("cifar-10-batches-bin");
  if (folder.empty()) GTEST_SKIP() << "no cifar-10-batches-bin in SPECTRALCLIP_DATA or ../shared/data";
  const Cifar10 data = open_cifar10(folder);
  ASSERT_TRUE(data.origin == CifarOrigin::official || data.origin == CifarOrigin::re_encoded) << data.source;
  const bool first_pixel = data.train.image(0)[0] == 59 && data.test.image(0)[0] == 158;
  EXPECT_EQ(data.origin == CifarOrigin::official, first_pixel);
  EXPECT_NAMES(data.source, first_pixel ? "official labels and images" : "re-encoded copy");
}

}  // namespace
}  // namespace spectralclip::lab::data
