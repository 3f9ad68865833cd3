// SPDX-License-Identifier: Apache-2.0
// CIFAR-10's official binary batches: records of 3,073 bytes, a label (0 … 9), then 32 x 32 red, green and blue planes.
#pragma once

#include <array>
#include <cstddef>
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

  [[nodiscard]] std::int64_t size() const noexcept { return starts_.back(); }
  [[nodiscard]] std::uint8_t label(std::int64_t index) const;
  // 3 x 32 x 32 bytes, planes first (CHW).
  [[nodiscard]] std::span<const std::uint8_t> image(std::int64_t index) const;
  // Images from `begin` on as one N x 3 x 32 x 32 block, as many as there is room for; the same for labels. Throw
  // InvalidArgument when they are not there or the room is no whole number of images.
  void copy_images(std::int64_t begin, std::span<std::uint8_t> out) const;
  void copy_labels(std::int64_t begin, std::span<std::int64_t> out) const;

 private:
  [[nodiscard]] const std::byte* record(std::int64_t index) const;

  std::vector<MappedFile> files_;
  std::vector<std::int64_t> starts_ = {0};  // first image of each file, and the end
};

// What the images of a batch are, told by the sum of its labels and, where the official first image is known, by that.
enum class CifarOrigin {
  official,         // the official labels, and the first image is the official one
  official_labels,  // the official labels; nothing is known of the images of this batch
  re_encoded,  // the official labels in the official order, other pixels: a copy that went through JPEG or the like
  other,       // a part of a batch, another order, or other images in the same format
};
[[nodiscard]] CifarOrigin cifar_origin(std::span<const std::byte> batch);
[[nodiscard]] const char* to_string(CifarOrigin origin) noexcept;

struct Cifar10 {
  CifarImages train, test;
  CifarOrigin origin;  // official or re_encoded if all batches may be, else other
  std::string source;  // for people, to stand beside every figure: names a re-encoded copy as such
};

// A folder with data_batch_1.bin … (those that are there) and test_batch.bin.
[[nodiscard]] Cifar10 open_cifar10(const std::string& folder);

}  // namespace spectralclip::lab::data
