// SPDX-License-Identifier: Apache-2.0
// Globs against a recursive definition, the default rules on real parameter names, shapes to matrices, bare names.
#include "spectralclip/rules.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "spectralclip/error.h"

namespace spectralclip {
namespace {

// The definition, exponential and obvious; for ASCII.
bool glob_by_definition(std::string_view pattern, std::string_view text) {
  if (pattern.empty()) return text.empty();
  if (pattern[0] == '*') {
    return glob_by_definition(pattern.substr(1), text) ||
           (!text.empty() && glob_by_definition(pattern, text.substr(1)));
  }
  return !text.empty() && (pattern[0] == '?' || pattern[0] == text[0]) &&
         glob_by_definition(pattern.substr(1), text.substr(1));
}

// All strings over `alphabet` of at most `length` characters.
std::vector<std::string> all_strings(std::string_view alphabet, std::size_t length) {
  std::vector<std::string> strings = {""};
  for (std::size_t i = 0; i < strings.size(); ++i) {
    if (strings[i].size() == length) continue;
    for (const char c : alphabet) strings.push_back(strings[i] + c);
  }
  return strings;
}

TEST(Glob, AgreesWithItsDefinitionOnAllShortStrings) {
  const auto texts = all_strings("ab", 6);
  for (const std::string& pattern : all_strings("ab*?", 5)) {
    for (const std::string& text : texts) {
      ASSERT_EQ(glob_match(pattern, text), glob_by_definition(pattern, text)) << pattern << " on " << text;
    }
  }
}

TEST(Glob, QuestionMarkTakesACharacterNotAByte) {
  EXPECT_TRUE(glob_match("?", "\xC3\xA9"));
  EXPECT_FALSE(glob_match("??", "\xC3\xA9"));
  EXPECT_FALSE(glob_match("*??", "\xC3\xA9"));
  EXPECT_TRUE(glob_match("*?x", "\xE2\x82\xACx"));
}

TEST(Glob, ManyStarsDoNotExplode) {
  std::string pattern;
  for (int i = 0; i < 60; ++i) pattern += "*a";
  pattern += "b";
  const std::string text(2000, 'a');  // the definition would need about 2000^60 / 60! calls
  EXPECT_FALSE(glob_match(pattern, text));
  EXPECT_TRUE(glob_match(pattern, text + "b"));
}

struct Expected {
  const char* name;
  std::vector<std::int64_t> shape;
  Treatment treatment;
  const char* label;
};

TEST(DefaultRules, OnNamesOfRealModels) {
  const std::vector<Rule> rules = default_rules();
  const std::vector<Expected> cases = {
      {"transformer.wte.weight", {50257, 768}, Treatment::skip, "embedding by name: skipped"},
      {"transformer.wpe.weight", {1024, 768}, Treatment::skip, "embedding by name: skipped"},
      {"lm_head.weight", {50257, 768}, Treatment::skip, "head by name: skipped"},
      {"lm_head.bias", {50257}, Treatment::skip, "head by name: skipped"},
      {"model.embed_tokens.weight", {32000, 4096}, Treatment::skip, "embedding by name: skipped"},
      {"bert.embeddings.word_embeddings.weight", {30522, 768}, Treatment::skip, "embedding by name: skipped"},
      {"bert.embeddings.position_embeddings.weight", {512, 768}, Treatment::skip, "embedding by name: skipped"},
      {"bert.embeddings.token_type_embeddings.weight", {2, 768}, Treatment::skip, "embedding by name: skipped"},
      {"word_embeddings.LayerNorm.weight", {768}, Treatment::norm, "vector: norm"},
      {"word_embeddings.LayerNorm.projection", {4, 768}, Treatment::spectral, "matrix (out, rest)"},
      {"bert.embeddings.LayerNorm.weight", {768}, Treatment::norm, "vector: norm"},
      {"transformer.h.0.attn.c_attn.weight", {768, 2304}, Treatment::spectral, "matrix (out, rest)"},
      {"transformer.h.0.attn.c_attn.bias", {2304}, Treatment::norm, "vector: norm"},
      {"temperature", {}, Treatment::norm, "vector: norm"},
      {"layers.0.conv1.weight", {64, 24, 3, 3}, Treatment::spectral, "matrix (out, rest)"},
      {"head.weight", {1000, 384}, Treatment::skip, "head by name: skipped"},
      {"module.classifier.weight", {10, 384}, Treatment::skip, "head by name: skipped"},
      {"output.weight", {32000, 4096}, Treatment::skip, "head by name: skipped"},
      {"layers.0.attention.output.weight", {768, 768}, Treatment::spectral, "matrix (out, rest)"},
      {"encoder.heads.weight", {768, 768}, Treatment::spectral, "matrix (out, rest)"},
      {"layers.0.mlp.experts.gate_up_proj", {8, 64, 32}, Treatment::spectral, "experts: one matrix each"},
      {"layers.0.mlp.experts.gate_up_bias", {8, 64}, Treatment::norm, "biases of experts: one vector each, norm"},
      {"layers.0.mlp.experts.3.w1.weight", {64, 32}, Treatment::spectral, "matrix (out, rest)"},
  };
  for (const Expected& expected : cases) {
    const Rule& rule = find_rule(rules, {expected.name, expected.shape});
    EXPECT_EQ(rule.treatment, expected.treatment) << expected.name << ": " << to_string(rule.treatment);
    EXPECT_EQ(rule.label, expected.label) << expected.name;
  }
}

TEST(DefaultRules, StackedExpertsAreOneMatrixOrVectorEach) {
  const std::vector<Rule> rules = default_rules();
  const Parameter stack{"mlp.experts.w", {8, 64, 32}}, biases{"mlp.experts.b_bias", {8, 64}};
  const Matricized matrices = matricize(find_rule(rules, stack), stack);
  EXPECT_EQ(matrices.count, 8);
  EXPECT_EQ(matrices.rows, 64);
  EXPECT_EQ(matrices.cols, 32);
  const Matricized vectors = matricize(find_rule(rules, biases), biases);
  EXPECT_EQ(vectors.count, 8);
  EXPECT_EQ(vectors.rows, 1);
  EXPECT_EQ(vectors.cols, 64);
}

TEST(FindRule, TheFirstMatchWinsAndWrappersDoNotHideIt) {
  Rule first;
  first.name_pattern = "fc.*";
  first.min_dims = 2;
  first.label = "first";
  Rule second;
  second.label = "second";
  const std::vector<Rule> rules = {first, second};
  EXPECT_EQ(find_rule(rules, {"fc.weight", {3, 4}}).label, "first");
  EXPECT_EQ(find_rule(rules, {"module._orig_mod.fc.weight", {3, 4}}).label, "first");
  EXPECT_EQ(find_rule(rules, {"fc.bias", {3}}).label, "second");
  EXPECT_EQ(find_rule(rules, {"other.fc.weight", {3, 4}}).label, "second");
}

TEST(FindRule, NoMatchNamesTheParameter) {
  Rule only;
  only.max_dims = 1;
  try {
    static_cast<void>(find_rule({only}, {"head.weight", {3, 4}}));
    FAIL() << "no rule matches";
  } catch (const InvalidArgument& error) {
    EXPECT_STREQ(error.what(), "none of 1 rules matches parameter \"head.weight\" with 2 axes");
  }
}

Rule axes(int batch, int row) {
  Rule rule;
  rule.batch_axes = batch;
  rule.row_axes = row;
  return rule;
}

void expect_matrices(const Rule& rule, std::vector<std::int64_t> shape, Matricized expected) {
  const Matricized got = matricize(rule, {"p", std::move(shape)});
  EXPECT_EQ(got.count, expected.count);
  EXPECT_EQ(got.rows, expected.rows);
  EXPECT_EQ(got.cols, expected.cols);
}

TEST(Matricize, AxesBecomeBatchRowsAndColumns) {
  expect_matrices(axes(0, 1), {768, 3072}, {1, 768, 3072});
  expect_matrices(axes(0, 1), {64, 24, 3, 5}, {1, 64, 360});
  expect_matrices(axes(1, 1), {8, 20, 30}, {8, 20, 30});
  expect_matrices(axes(2, 1), {2, 3, 5, 7}, {6, 5, 7});
  expect_matrices(axes(0, 2), {2, 3, 5, 7}, {1, 6, 35});
  expect_matrices(axes(0, 0), {2, 3}, {1, 1, 6});
  expect_matrices(axes(0, 1), {5, 1}, {1, 5, 1});  // a 2-d parameter keeps its shape
}

TEST(Matricize, VectorsAndScalarsAreRows) {
  expect_matrices(axes(0, 1), {}, {1, 1, 1});
  expect_matrices(axes(0, 1), {7}, {1, 1, 7});
  expect_matrices(axes(1, 1), {4, 7}, {4, 1, 7});
  expect_matrices(axes(1, 0), {4, 7}, {4, 1, 7});
}

std::string refusal(const Rule& rule, std::vector<std::int64_t> shape) {
  try {
    static_cast<void>(matricize(rule, {"fc.weight", std::move(shape)}));
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Matricize, RefusesWithNameShapeAndAxes) {
  EXPECT_EQ(refusal(axes(0, 1), {3, 0}), "parameter \"fc.weight\" has shape (3, 0): every axis must be >= 1");
  EXPECT_EQ(refusal(axes(0, 1), {-3, 4}), "parameter \"fc.weight\" has shape (-3, 4): every axis must be >= 1");
  EXPECT_EQ(
      refusal(axes(1, 2), {3, 4}),
      "rule \"*\": batch_axes = 1 and row_axes = 2 need more axes than parameter \"fc.weight\" of shape (3, 4) has");
  EXPECT_EQ(refusal(axes(-1, 1), {3, 4}), "rule \"*\": batch_axes = -1 and row_axes = 1 must be >= 0");
  EXPECT_NE(refusal(axes(1, 1), {}).find("need more axes"), std::string::npos);
  constexpr int kMany = std::numeric_limits<int>::max();
  EXPECT_NE(refusal(axes(kMany, kMany), {3, 4}).find("need more axes"), std::string::npos);
}

TEST(Matricize, ProductsDoNotOverflow) {
  const std::int64_t half = std::int64_t{1} << 31;
  EXPECT_EQ(refusal(axes(0, 1), {half, half}), "accepted");
  EXPECT_EQ(refusal(axes(0, 1), {half, half, 2}),
            "parameter \"fc.weight\" has shape (2147483648, 2147483648, 2): more entries than int64 counts");
}

TEST(NormalizedName, DropsWrapperComponentsOnly) {
  EXPECT_EQ(normalized_name("module.fc.weight"), "fc.weight");
  EXPECT_EQ(normalized_name("_orig_mod.module.fc.weight"), "fc.weight");
  EXPECT_EQ(normalized_name("h.0._fsdp_wrapped_module._orig_mod.fc.weight"), "h.0.fc.weight");
  EXPECT_EQ(normalized_name("submodule.fc.weight"), "submodule.fc.weight");
  EXPECT_EQ(normalized_name("module_list.0.module2.weight"), "module_list.0.module2.weight");
  EXPECT_EQ(normalized_name("fc.module"), "fc.module");  // a tensor's own name
  EXPECT_EQ(normalized_name("module"), "module");
  EXPECT_EQ(normalized_name(""), "");
  EXPECT_EQ(normalized_name(".a..b."), ".a..b.");
}

}  // namespace
}  // namespace spectralclip
