// SPDX-License-Identifier: Apache-2.0
// CIFAR-10's official binary batches: records of 3,073 bytes, a label (0 … 9), then 32 x 32 red, green and blue planes.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/mapped_file.h"

namespace spectralclip::lab::data {

inline constexpr std::int64_t kCifarPixels = 3 * 32 * 32;
inline constexpr std::int64_t kCifarRecord = 1 + kCifarPixels;
inline constexpr std::array<const char*, 10> kCifarClasses = {"airplane", "automobile", "bird",  "cat",  "deer",
                                                              "dog",      "frog",       "horse", "ship", "truck"};

// Checks one batch: whole records, labels 0 … 9. Returns the number of records; throws DataError (images without their
// labels are told from other damage).
std::int64_t check_cifar_batch(std::span<const std::byte> bytes, const std::string& name);

// Several batches as one row of images.
class CifarImages {
 public:
  explicit CifarImages(const std::vector<std::string>& paths);

  [[nodiscard]] std::int64_t size() const noexcept { return size_; }
  [[nodiscard]] std::uint8_t label(std::int64_t index) const;
  // 3 x 32 x 32 bytes, planes first (CHW).
  [[nodiscard]] std::span<const std::uint8_t> image(std::int64_t index) const;
  // Images begin … begin + count - 1 as one N x 3 x 32 x 32 block and their labels; out.size() decides.
  void copy_images(std::int64_t begin, std::span<std::uint8_t> out) const;
  void copy_labels(std::int64_t begin, std::span<std::int64_t> out) const;

 private:
  [[nodiscard]] const std::byte* record(std::int64_t index) const;

  std::vector<MappedFile> files_;
  std::vector<std::int64_t> starts_ = {0};
  std::int64_t size_ = 0;
};

// What the pixels are, told by sums of the labels and by the first image.
enum class CifarOrigin {
  official,    // labels and images of the official batches
  re_encoded,  // the official labels in the official order, other pixels (a copy that went through JPEG)
  part,        // fewer images than the official batch, or another order
};

struct Cifar10 {
  CifarImages train, test;
  CifarOrigin origin;
  std::string source;  // for people, and beside every figure: "CIFAR-10, re-encoded copy (…) from …"
};

// A folder with data_batch_1.bin … and test_batch.bin (those that are there, at least one and test_batch.bin).
[[nodiscard]] Cifar10 open_cifar10(const std::string& folder);

}  // namespace spectralclip::lab::data
