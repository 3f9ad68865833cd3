// SPDX-License-Identifier: Apache-2.0
#include "training/archive.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "require.h"

namespace spectralclip::lab {
namespace {

std::vector<std::pair<std::string, at::Tensor>> tensors_of(const ::torch::nn::Module& model) {
  std::vector<std::pair<std::string, at::Tensor>> tensors;
  for (const auto& item : model.named_parameters()) tensors.emplace_back(item.key(), item.value().detach());
  for (const auto& item : model.named_buffers()) tensors.emplace_back(item.key(), item.value());
  return tensors;
}

}  // namespace

void write_archive(StateWriter& out, const std::string& section,
                   const std::function<void(::torch::serialize::OutputArchive&)>& fill) {
  ::torch::serialize::OutputArchive archive;
  fill(archive);
  out.begin(section);
  archive.save_to([&out](const void* data, std::size_t size) {
    out.write({static_cast<const std::uint8_t*>(data), size});
    return size;
  });
}

void read_archive(const StateReader& in, const std::string& section,
                  const std::function<void(::torch::serialize::InputArchive&)>& take) {
  const std::uint64_t size = in.size(section);
  const auto read = [&](std::uint64_t position, void* buffer, std::size_t wanted) {
    const std::uint64_t count = position < size ? std::min<std::uint64_t>(wanted, size - position) : 0;
    in.read(section, position, {static_cast<std::uint8_t*>(buffer), static_cast<std::size_t>(count)});
    return static_cast<std::size_t>(count);
  };
  try {
    ::torch::serialize::InputArchive archive;
    archive.load_from(read, [size] { return static_cast<std::size_t>(size); });
    take(archive);
  } catch (const c10::Error& error) {
    throw StateFileError(
        detail::concat("section \"", section, "\" of the checkpoint cannot be read: ", error.what_without_backtrace()));
  }
}

void write_weights(StateWriter& out, const ::torch::nn::Module& model) {
  write_archive(out, "weights", [&](auto& archive) {
    for (const auto& [name, tensor] : tensors_of(model)) archive.write(name, tensor);
  });
}

void read_weights(const StateReader& in, ::torch::nn::Module& model) {
  const at::NoGradGuard no_grad;
  read_archive(in, "weights", [&](auto& archive) {
    for (const auto& [name, tensor] : tensors_of(model)) {
      at::Tensor read;
      archive.read(name, read);
      if (read.sizes() != tensor.sizes())
        throw StateFileError(detail::concat("the checkpoint has ", name, " of another shape"));
      tensor.copy_(read);
    }
  });
}

}  // namespace spectralclip::lab
