// SPDX-License-Identifier: Apache-2.0
// GPT-2's network in all sizes: tokens and positions, blocks of causal attention and a two-layer perceptron behind
// LayerNorms, and a head that is the token table again (tied: one parameter). Names are Hugging Face's (wte.weight,
// h.0.attn.c_attn.weight, …); matrices are (out, in), as torch's Linear has them and GPT-2's Conv1D has not.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <vector>

namespace spectralclip::lab {

struct GptShape {
  std::int64_t vocabulary = 50257;
  std::int64_t context = 1024;
  std::int64_t layers = 12;
  std::int64_t heads = 12;
  std::int64_t width = 768;
  bool bias = true;           // of linear layers and LayerNorms
  bool separate_qkv = false;  // three matrices attn.q, attn.k, attn.v instead of attn.c_attn
  bool tanh_gelu = true;      // GPT-2's approximation; false: the exact one (nanoGPT)
  double dropout = 0;
};
// Throws InvalidArgument when heads do not divide the width.
void validate(const GptShape& shape);

class Gpt final : public ::torch::nn::Module {
 public:
  // Weights from N(0, 0.02^2), those before a residual sum from N(0, (0.02 / sqrt(2 layers))^2), biases 0, scales 1;
  // drawn by (seed, name).
  Gpt(const GptShape& shape, std::uint64_t seed);

  // B x T tokens (T up to the context) -> B x T x vocabulary.
  [[nodiscard]] at::Tensor logits(const at::Tensor& tokens);
  // Mean cross-entropy over all positions; a target of -100 does not count.
  [[nodiscard]] at::Tensor loss(const at::Tensor& tokens, const at::Tensor& targets);
  // B x vocabulary: what follows each row.
  [[nodiscard]] at::Tensor next_logits(const at::Tensor& tokens);

  [[nodiscard]] const GptShape& shape() const noexcept { return shape_; }
  [[nodiscard]] std::int64_t parameter_count() const;
  // As nanoGPT counts: without the table of positions.
  [[nodiscard]] std::int64_t parameter_count_without_positions() const;

 private:
  struct Linear;
  struct Norm;
  struct Block;
  [[nodiscard]] at::Tensor hidden(const at::Tensor& tokens);

  GptShape shape_;
  at::Tensor wte_, wpe_;
  std::vector<std::shared_ptr<Block>> blocks_;
  std::shared_ptr<Norm> last_;
};

}  // namespace spectralclip::lab
