// SPDX-License-Identifier: Apache-2.0
#include "models/gpt.h"

#include <cmath>
#include <span>
#include <string>

#include "noise/draws.h"
#include "require.h"

namespace spectralclip::lab {
namespace {

constexpr double kStart = 0.02;  // standard deviation of the first weights, as GPT-2's
constexpr double kNormEpsilon = 1e-5;

std::shared_ptr<::torch::nn::Module> folder() { return std::make_shared<::torch::nn::Module>(); }

at::Tensor table(::torch::nn::Module& model, const char* name, std::int64_t rows, std::int64_t cols) {
  auto part = folder();
  at::Tensor weight = part->register_parameter("weight", at::empty({rows, cols}));
  model.register_module(name, part);
  return weight;
}

void start(const std::string& name, at::Tensor weight, std::uint64_t seed, std::int64_t layers) {
  const at::NoGradGuard no_grad;
  if (name.ends_with("bias")) {
    weight.zero_();
  } else if (weight.dim() == 1) {
    weight.fill_(1);
  } else {
    Draws(seed, "gpt." + name)
        .fill_normal(std::span(weight.data_ptr<float>(), static_cast<std::size_t>(weight.numel())));
    const bool residual = name.ends_with("c_proj.weight");
    weight.mul_(residual ? kStart / std::sqrt(2.0 * static_cast<double>(layers)) : kStart);
  }
}

}  // namespace

void validate(const GptShape& shape) {
  SPECTRALCLIP_REQUIRE(shape.heads >= 1 && shape.width % shape.heads == 0, "a width of ", shape.width,
                       " is no multiple of ", shape.heads, " heads");
}

struct Gpt::Linear : ::torch::nn::Module {
  Linear(std::int64_t in, std::int64_t out, bool has_bias) {
    weight = register_parameter("weight", at::empty({out, in}));
    if (has_bias) bias = register_parameter("bias", at::empty({out}));
  }
  [[nodiscard]] at::Tensor forward(const at::Tensor& x) const { return at::linear(x, weight, bias); }
  at::Tensor weight, bias;
};

struct Gpt::Norm : ::torch::nn::Module {
  Norm(std::int64_t width, bool has_bias) {
    weight = register_parameter("weight", at::empty({width}));
    if (has_bias) bias = register_parameter("bias", at::empty({width}));
  }
  [[nodiscard]] at::Tensor forward(const at::Tensor& x) const {
    return at::layer_norm(x, {weight.size(0)}, weight, bias, kNormEpsilon);
  }
  at::Tensor weight, bias;
};

struct Gpt::Block : ::torch::nn::Module {
  explicit Block(const GptShape& s) : shape(s) {
    const auto linear = [&](::torch::nn::Module& parent, const char* name, std::int64_t in, std::int64_t out) {
      return parent.register_module(name, std::make_shared<Linear>(in, out, s.bias));
    };
    auto attention = folder(), perceptron = folder();
    norm_1 = register_module("ln_1", std::make_shared<Norm>(s.width, s.bias));
    if (s.separate_qkv)
      for (const char* name : {"q", "k", "v"}) qkv.push_back(linear(*attention, name, s.width, s.width));
    else
      qkv.push_back(linear(*attention, "c_attn", s.width, 3 * s.width));
    attention_out = linear(*attention, "c_proj", s.width, s.width);
    register_module("attn", attention);
    norm_2 = register_module("ln_2", std::make_shared<Norm>(s.width, s.bias));
    up = linear(*perceptron, "c_fc", s.width, 4 * s.width);
    down = linear(*perceptron, "c_proj", 4 * s.width, s.width);
    register_module("mlp", perceptron);
  }

  [[nodiscard]] at::Tensor dropped(const at::Tensor& x) const {
    return shape.dropout > 0 ? at::dropout(x, shape.dropout, is_training()) : x;
  }

  // B x T x C -> B x heads x T x C / heads.
  [[nodiscard]] at::Tensor by_head(const at::Tensor& x) const {
    return x.view({x.size(0), x.size(1), shape.heads, shape.width / shape.heads}).transpose(1, 2);
  }

  [[nodiscard]] at::Tensor attend(const at::Tensor& x) const {
    std::vector<at::Tensor> parts;
    if (shape.separate_qkv)
      for (const auto& one : qkv) parts.push_back(by_head(one->forward(x)));
    else
      for (const at::Tensor& part : qkv.front()->forward(x).split(shape.width, 2)) parts.push_back(by_head(part));
    const double p = is_training() ? shape.dropout : 0.0;
    const at::Tensor y = at::scaled_dot_product_attention(parts[0], parts[1], parts[2], {}, p, /*is_causal=*/true);
    return dropped(attention_out->forward(y.transpose(1, 2).reshape(x.sizes())));
  }

  [[nodiscard]] at::Tensor forward(const at::Tensor& x) const {
    const at::Tensor middle = x + attend(norm_1->forward(x));
    const at::Tensor risen = at::gelu(up->forward(norm_2->forward(middle)), shape.tanh_gelu ? "tanh" : "none");
    return middle + dropped(down->forward(risen));
  }

  GptShape shape;
  std::shared_ptr<Norm> norm_1, norm_2;
  std::vector<std::shared_ptr<Linear>> qkv;
  std::shared_ptr<Linear> attention_out, up, down;
};

Gpt::Gpt(const GptShape& shape, std::uint64_t seed) : shape_(shape) {
  validate(shape);
  wte_ = table(*this, "wte", shape.vocabulary, shape.width);
  wpe_ = table(*this, "wpe", shape.context, shape.width);
  auto all = folder();
  for (std::int64_t layer = 0; layer < shape.layers; ++layer)
    blocks_.push_back(all->register_module(std::to_string(layer), std::make_shared<Block>(shape)));
  register_module("h", all);
  last_ = register_module("ln_f", std::make_shared<Norm>(shape.width, shape.bias));
  for (const auto& item : named_parameters()) start(item.key(), item.value(), seed, shape.layers);
}

at::Tensor Gpt::hidden(const at::Tensor& tokens) {
  SPECTRALCLIP_REQUIRE(tokens.dim() == 2 && tokens.size(1) <= shape_.context, "tokens of ", tokens.dim(),
                       " axes, the last of ", tokens.size(-1), ": expected batch x at most ", shape_.context);
  at::Tensor x = at::embedding(wte_, tokens) + wpe_.slice(0, 0, tokens.size(1));
  if (shape_.dropout > 0) x = at::dropout(x, shape_.dropout, is_training());
  for (const auto& block : blocks_) x = block->forward(x);
  return last_->forward(x);
}

at::Tensor Gpt::logits(const at::Tensor& tokens) { return at::linear(hidden(tokens), wte_); }

at::Tensor Gpt::loss(const at::Tensor& tokens, const at::Tensor& targets) {
  return at::cross_entropy_loss(logits(tokens).flatten(0, 1), targets.flatten());
}

at::Tensor Gpt::next_logits(const at::Tensor& tokens) { return at::linear(hidden(tokens).select(1, -1), wte_); }

std::int64_t Gpt::parameter_count() const {
  std::int64_t count = 0;
  for (const at::Tensor& parameter : parameters()) count += parameter.numel();
  return count;
}

std::int64_t Gpt::parameter_count_without_positions() const { return parameter_count() - wpe_.numel(); }

}  // namespace spectralclip::lab
