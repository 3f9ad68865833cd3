// SPDX-License-Identifier: Apache-2.0
#include "models/gpt_files.h"

#include <array>
#include <span>
#include <vector>

#include "data/llmc_model.h"
#include "data/safetensors.h"
#include "require.h"

namespace spectralclip::lab {
namespace {

using data::TensorView;

std::span<float> floats(const at::Tensor& tensor) {
  return {tensor.data_ptr<float>(), static_cast<std::size_t>(tensor.numel())};
}
std::span<const std::byte> bytes(const at::Tensor& tensor) { return std::as_bytes(floats(tensor)); }
std::vector<std::int64_t> shape_of(const at::Tensor& tensor) { return tensor.sizes().vec(); }

at::Tensor read(const TensorView& view) {
  const at::Tensor tensor = at::empty(view.shape, at::kFloat);
  data::to_float(view, floats(tensor));
  return tensor;
}

at::Tensor on_cpu(const at::Tensor& tensor) { return tensor.detach().to(at::kCPU, at::kFloat).contiguous(); }

// The matrices that are a Conv1D there.
bool is_conv1d(const std::string& name) {
  return name.starts_with("h.") && name.ends_with("weight") && name.find("ln_") == std::string::npos;
}

void require_fused(const std::string& path, const Gpt& gpt) {
  SPECTRALCLIP_REQUIRE(!gpt.shape().separate_qkv, path, ": such files have queries, keys and values in one matrix");
}

void load_safetensors(const std::string& path, Gpt& gpt) {
  const data::Safetensors file(path);
  const std::string prefix = file.find("transformer.wte.weight") != nullptr ? "transformer." : "";
  for (const auto& item : gpt.named_parameters()) {
    const bool turned = is_conv1d(item.key());
    const at::Tensor wanted = turned ? item.value().t() : item.value();
    const at::Tensor found = read(file.require(prefix + item.key(), shape_of(wanted)));
    item.value().copy_(turned ? found.t() : found);
  }
}

void save_safetensors(const std::string& path, const Gpt& gpt) {
  std::vector<at::Tensor> kept;
  std::vector<TensorView> views;
  for (const auto& item : gpt.named_parameters()) {
    kept.push_back(on_cpu(is_conv1d(item.key()) ? item.value().t() : item.value()));
    views.push_back({"transformer." + item.key(), data::ElementType::f32, shape_of(kept.back()), bytes(kept.back())});
  }
  data::write_safetensors(path, views, {{"format", "pt"}});
}

// llm.c's order; the part behind "h.N." for those that are stacked.
constexpr std::array kNames = {"wte.weight",         "wpe.weight",       "ln_1.weight",        "ln_1.bias",
                               "attn.c_attn.weight", "attn.c_attn.bias", "attn.c_proj.weight", "attn.c_proj.bias",
                               "ln_2.weight",        "ln_2.bias",        "mlp.c_fc.weight",    "mlp.c_fc.bias",
                               "mlp.c_proj.weight",  "mlp.c_proj.bias",  "ln_f.weight",        "ln_f.bias"};
bool is_stacked(std::size_t place) { return place >= 2 && place < 14; }

data::Gpt2Shape llmc_shape(const GptShape& shape) {
  return {shape.context, shape.vocabulary, shape.layers,
          shape.heads,   shape.width,      (shape.vocabulary + 127) / 128 * 128};
}

void load_llmc(const std::string& path, Gpt& gpt) {
  const data::LlmcModelFile file(path);
  data::Gpt2Shape wanted = llmc_shape(gpt.shape());
  wanted.padded_vocabulary = file.model().shape.padded_vocabulary;
  const auto text = [](const data::Gpt2Shape& s) {
    return detail::concat("context ", s.positions, ", vocabulary ", s.vocabulary, ", ", s.layers, " layers, ", s.heads,
                          " heads, width ", s.channels);
  };
  SPECTRALCLIP_REQUIRE(file.model().shape == wanted, path, " has ", text(file.model().shape), "; expected ",
                       text(wanted));
  const auto parameters = gpt.named_parameters();
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    const at::Tensor all = read(file.model().tensors[i]);
    if (i == 0) parameters[kNames[i]].copy_(all.slice(0, 0, gpt.shape().vocabulary));
    if (i > 0 && !is_stacked(i)) parameters[kNames[i]].copy_(all);
    for (std::int64_t layer = 0; is_stacked(i) && layer < gpt.shape().layers; ++layer)
      parameters["h." + std::to_string(layer) + "." + kNames[i]].copy_(all.select(0, layer));
  }
}

void save_llmc(const std::string& path, const Gpt& gpt) {
  const GptShape& shape = gpt.shape();
  SPECTRALCLIP_REQUIRE(shape.bias && shape.tanh_gelu, path, ": llm.c's networks have biases and the tanh form of GELU");
  const data::Gpt2Shape file_shape = llmc_shape(shape);
  const auto parameters = gpt.named_parameters();
  std::vector<at::Tensor> kept;
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    std::vector<at::Tensor> layers;
    for (std::int64_t layer = 0; is_stacked(i) && layer < shape.layers; ++layer)
      layers.push_back(on_cpu(parameters["h." + std::to_string(layer) + "." + kNames[i]]));
    kept.push_back(is_stacked(i) ? at::stack(layers) : on_cpu(parameters[kNames[i]]));
  }
  kept[0] = at::constant_pad_nd(kept[0], {0, 0, 0, file_shape.padded_vocabulary - shape.vocabulary}).contiguous();
  std::vector<TensorView> views;
  for (std::size_t i = 0; i < kNames.size(); ++i)
    views.push_back({data::kLlmcTensors[i], data::ElementType::f32, shape_of(kept[i]), bytes(kept[i])});
  data::write_llmc_model(path, file_shape, views);
}

}  // namespace

void load_gpt(const std::string& path, Gpt& gpt) {
  const at::NoGradGuard no_grad;
  require_fused(path, gpt);
  path.ends_with(".safetensors") ? load_safetensors(path, gpt) : load_llmc(path, gpt);
}

void save_gpt(const std::string& path, const Gpt& gpt) {
  const at::NoGradGuard no_grad;
  require_fused(path, gpt);
  path.ends_with(".safetensors") ? save_safetensors(path, gpt) : save_llmc(path, gpt);
}

}  // namespace spectralclip::lab
