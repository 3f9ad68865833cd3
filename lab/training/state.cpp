// SPDX-License-Identifier: Apache-2.0
#include "training/state.h"

#include <ATen/CPUGeneratorImpl.h>

#include <sstream>

#include "clipper/byte_stream.h"

namespace spectralclip::lab {
namespace {

template <class Fill>
Bytes archived(Fill&& fill) {
  ::torch::serialize::OutputArchive archive;
  fill(archive);
  std::ostringstream stream;
  archive.save_to(stream);
  const std::string text = std::move(stream).str();
  return {text.begin(), text.end()};
}

template <class Take>
void unarchived(const Bytes& bytes, const char* what, Take&& take) {
  try {
    ::torch::serialize::InputArchive archive;
    archive.load_from(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    take(archive);
  } catch (const c10::Error& error) {
    throw StateFileError(
        detail::concat("the ", what, " of the checkpoint cannot be read: ", error.what_without_backtrace()));
  }
}

}  // namespace

const Bytes& section(const Sections& sections, const std::string& name) {
  const auto found = sections.find(name);
  if (found == sections.end()) throw StateFileError("the checkpoint has no section \"" + name + "\"");
  return found->second;
}

Bytes saved(const spectralclip::torch::NamedTensors& parameters) {
  return archived([&](auto& archive) {
    for (const auto& [name, tensor] : parameters) archive.write(name, tensor.detach());
  });
}

Bytes saved(const ::torch::optim::Optimizer& optimizer) {
  return archived([&](auto& archive) { optimizer.save(archive); });
}

Bytes saved(const LossProgress& progress) {
  ByteWriter out;
  out.put(progress.loss_sum);
  out.put(progress.loss_count);
  out.put(progress.last_loss);
  out.put(progress.least_loss);
  return std::move(out).take();
}

Bytes saved_generator() {
  const at::Tensor state = at::detail::getDefaultCPUGenerator().get_state();
  return {state.data_ptr<std::uint8_t>(), state.data_ptr<std::uint8_t>() + state.numel()};
}

void load_weights(const spectralclip::torch::NamedTensors& parameters, const Bytes& bytes) {
  const at::NoGradGuard no_grad;
  unarchived(bytes, "weights", [&](auto& archive) {
    for (const auto& [name, tensor] : parameters) {
      at::Tensor read;
      archive.read(name, read);
      if (read.sizes() != tensor.sizes())
        throw StateFileError(detail::concat("the checkpoint has ", name, " of another shape"));
      tensor.copy_(read);
    }
  });
}

void load_optimizer(::torch::optim::Optimizer& optimizer, const Bytes& bytes) {
  unarchived(bytes, "optimizer", [&](auto& archive) { optimizer.load(archive); });
}

LossProgress loaded_progress(const Bytes& bytes) {
  ByteReader in(bytes);
  LossProgress progress;
  progress.loss_sum = in.float64("loss_sum");
  progress.loss_count = in.integer<std::int64_t>("loss_count");
  progress.last_loss = in.float64("last_loss");
  progress.least_loss = in.float64("least_loss");
  return progress;
}

void load_generator(const Bytes& bytes) {
  at::Tensor state = at::empty({static_cast<std::int64_t>(bytes.size())}, at::kByte);
  std::copy(bytes.begin(), bytes.end(), state.data_ptr<std::uint8_t>());
  try {
    at::Generator generator = at::detail::getDefaultCPUGenerator();
    generator.set_state(state);
  } catch (const c10::Error& error) {
    throw StateFileError(
        detail::concat("the generator of the checkpoint cannot be read: ", error.what_without_backtrace()));
  }
}

}  // namespace spectralclip::lab
