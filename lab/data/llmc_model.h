// SPDX-License-Identifier: Apache-2.0
// Model files of llm.c (GPT-2): 256 int32 (20240326, version 3: float32 or 5: bfloat16, T, V, L, heads, C, padded V),
// then 16 tensors, each stacked over the layers: wte, wpe, ln1w, ln1b, qkvw, qkvb, attprojw, attprojb, ln2w, ln2b, fcw,
// fcb, fcprojw, fcprojb, lnfw, lnfb. Matrices are (out, in), as torch's Linear has them.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/mapped_file.h"
#include "data/tensor_view.h"

namespace spectralclip::lab::data {

struct Gpt2Shape {
  std::int64_t positions = 1024;    // T
  std::int64_t vocabulary = 50257;  // V
  std::int64_t layers = 12;         // L
  std::int64_t heads = 12;
  std::int64_t channels = 768;             // C
  std::int64_t padded_vocabulary = 50304;  // Vp, rows of wte

  [[nodiscard]] bool operator==(const Gpt2Shape&) const = default;
};

inline constexpr std::array<const char*, 16> kLlmcTensors = {"wte",      "wpe",      "ln1w", "ln1b", "qkvw", "qkvb",
                                                             "attprojw", "attprojb", "ln2w", "ln2b", "fcw",  "fcb",
                                                             "fcprojw",  "fcprojb",  "lnfw", "lnfb"};

// Shape of each of the 16, layers first: wte (Vp, C), qkvw (L, 3C, C), … Throws InvalidArgument on sizes < 1 or
// products that no memory holds.
[[nodiscard]] std::vector<std::vector<std::int64_t>> llmc_shapes(const Gpt2Shape& shape);

struct LlmcModel {
  Gpt2Shape shape;
  ElementType type;                 // f32 or bf16
  std::vector<TensorView> tensors;  // 16, in the file's order
};

// Refused: another magic or version, sizes out of range, heads that do not divide C, a file of another length.
[[nodiscard]] LlmcModel parse_llmc_model(std::span<const std::byte> bytes, const std::string& name);

class LlmcModelFile {
 public:
  explicit LlmcModelFile(const std::string& path);
  [[nodiscard]] const LlmcModel& model() const noexcept { return model_; }
  [[nodiscard]] const std::string& path() const noexcept { return file_.path(); }

 private:
  MappedFile file_;
  LlmcModel model_;
};

// `tensors`: the 16 by their order, shapes as llmc_shapes says, all F32 (version 3) or all BF16 (version 5). Atomic.
void write_llmc_model(const std::string& path, const Gpt2Shape& shape, std::span<const TensorView> tensors);

}  // namespace spectralclip::lab::data
