// SPDX-License-Identifier: Apache-2.0
#include "data/cifar10.h"

#include <algorithm>
#include <filesystem>

#include "data/data_error.h"

namespace spectralclip::lab::data {

std::int64_t check_cifar_batch(std::span<const std::byte> bytes, const std::string& name) {
  const auto size = static_cast<std::int64_t>(bytes.size());
  if (size == 0) throw_data_error(name, " is empty; records of 3073 bytes were expected");
  if (size % kCifarRecord != 0) {
    const bool unlabelled = size % kCifarPixels == 0;
    throw_data_error(name, ": ", size, " bytes are no whole number of records of 3073 bytes",
                     unlabelled ? "; images without their labels (3072 bytes each)?" : "; the last one is truncated");
  }
  const std::int64_t records = size / kCifarRecord;
  for (std::int64_t i = 0; i < records; ++i) {
    const auto label = std::to_integer<int>(bytes[static_cast<std::size_t>(i * kCifarRecord)]);
    if (label > 9) throw_data_error(name, ": record ", i, " has label ", label, "; 0 to 9 was expected");
  }
  return records;
}

CifarImages::CifarImages(const std::vector<std::string>& paths) {
  for (const std::string& path : paths) {
    const std::int64_t records = check_cifar_batch(files_.emplace_back(path).bytes(), path);
    starts_.push_back(starts_.back() + records);
  }
}

const std::byte* CifarImages::record(std::int64_t index) const {
  SPECTRALCLIP_REQUIRE(index >= 0 && index < size(), "image ", index, " of ", size());
  const auto file = static_cast<std::size_t>(std::ranges::upper_bound(starts_, index) - starts_.begin()) - 1;
  return files_[file].bytes().data() + (index - starts_[file]) * kCifarRecord;
}

std::uint8_t CifarImages::label(std::int64_t index) const { return std::to_integer<std::uint8_t>(*record(index)); }

std::span<const std::uint8_t> CifarImages::image(std::int64_t index) const {
  return {reinterpret_cast<const std::uint8_t*>(record(index)) + 1, static_cast<std::size_t>(kCifarPixels)};
}

void CifarImages::copy_images(std::int64_t begin, std::span<std::uint8_t> out) const {
  const auto room = static_cast<std::int64_t>(out.size());
  SPECTRALCLIP_REQUIRE(room % kCifarPixels == 0, "room for ", room, " bytes is no whole number of images of 3072");
  const std::int64_t count = room / kCifarPixels;
  SPECTRALCLIP_REQUIRE(begin >= 0 && begin <= size() && count <= size() - begin, "images ", begin, " to ", begin, " + ",
                       count, " of ", size());
  auto to = out.begin();
  for (std::int64_t i = begin; i < begin + count; ++i) to = std::ranges::copy(image(i), to).out;
}

void CifarImages::copy_labels(std::int64_t begin, std::span<std::int64_t> out) const {
  for (std::int64_t& value : out) value = label(begin++);
}

Cifar10 open_cifar10(const std::string& folder) {
  std::vector<std::string> train;
  for (int i = 1; i <= 5; ++i) {
    std::string path = detail::concat(folder, "/data_batch_", i, ".bin");
    if (std::filesystem::exists(path)) train.push_back(std::move(path));
  }
  const std::string test = folder + "/test_batch.bin";
  if (train.empty() || !std::filesystem::exists(test))
    throw_data_error(folder, " has no ", train.empty() ? "data_batch_1.bin" : "test_batch.bin",
                     "; CIFAR-10's binary batches were expected");
  CifarOrigin origin = CifarOrigin::official;
  std::vector<std::string> all = train;
  all.push_back(test);
  for (const std::string& path : all) {  // the worst decides; the enumerators ascend
    const CifarOrigin one = cifar_origin(MappedFile(path).bytes());
    if (one != CifarOrigin::official_labels) origin = std::max(origin, one);
  }
  Cifar10 data{CifarImages(train), CifarImages({test}), origin, {}};
  data.source = detail::concat("CIFAR-10 from ", folder, " (", data.train.size(), " + ", data.test.size(), " images; ",
                               to_string(origin), ")");
  return data;
}

}  // namespace spectralclip::lab::data
