// SPDX-License-Identifier: Apache-2.0
#include "support/npy.h"

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <regex>
#include <stdexcept>

namespace spectralclip::testing {
namespace {

using RowMajor = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

[[noreturn]] void refuse(const std::string& path, const char* why) { throw std::runtime_error(path + ": " + why); }

std::string read_header(std::ifstream& file, const std::string& path) {
  char start[10] = {};
  file.read(start, sizeof start);
  if (!file || std::memcmp(start, "\x93NUMPY\x01", 7) != 0) refuse(path, "not a .npy file of version 1");
  const auto byte = [&](int i) { return static_cast<std::size_t>(static_cast<std::uint8_t>(start[i])); };
  std::string header(byte(8) + 256 * byte(9), ' ');
  file.read(header.data(), static_cast<std::streamsize>(header.size()));
  if (!file) refuse(path, "the header is cut off");
  return header;
}

}  // namespace

std::optional<std::string> gradients_folder() {
  const char* const data = std::getenv("SPECTRALCLIP_DATA");
  const std::filesystem::path folder = std::filesystem::path(data != nullptr ? data : "../shared/data") / "gradients";
  if (!std::filesystem::is_directory(folder)) return std::nullopt;
  return folder.string();
}

std::vector<Eigen::MatrixXd> read_npy_sequence(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) refuse(path, "cannot be opened");
  const std::string header = read_header(file, path);
  std::smatch shape;
  const bool plain =
      header.find("'<f4'") != std::string::npos && header.find("'fortran_order': False") != std::string::npos;
  if (!plain || !std::regex_search(header, shape, std::regex(R"(\((\d+), (\d+), (\d+)\))"))) {
    refuse(path, "not a float32 array of three axes in C order");
  }
  std::vector<Eigen::MatrixXd> sequence;
  RowMajor step(std::stol(shape[2]), std::stol(shape[3]));
  for (long i = 0; i < std::stol(shape[1]); ++i) {
    file.read(reinterpret_cast<char*>(step.data()), static_cast<std::streamsize>(sizeof(float)) * step.size());
    if (!file) refuse(path, "the data is cut off");
    sequence.emplace_back(step.cast<double>());
  }
  return sequence;
}

}  // namespace spectralclip::testing
