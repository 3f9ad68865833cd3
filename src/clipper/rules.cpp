// SPDX-License-Identifier: Apache-2.0
// The default rules, the search for the rule of a parameter, and names without their wrappers.
#include "spectralclip/rules.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "require.h"

namespace spectralclip {
namespace {

constexpr int kAnyDims = std::numeric_limits<int>::max();

Rule make_rule(std::string pattern, int min_dims, int max_dims, Treatment treatment, std::string label) {
  Rule rule;
  rule.name_pattern = std::move(pattern);
  rule.min_dims = min_dims;
  rule.max_dims = max_dims;
  rule.treatment = treatment;
  rule.label = std::move(label);
  return rule;
}

Rule vector_rule(std::string pattern) { return make_rule(std::move(pattern), 0, 1, Treatment::norm, "vector: norm"); }

Rule matrix_rule(std::string pattern) {
  return make_rule(std::move(pattern), 2, kAnyDims, Treatment::spectral, "matrix (out, rest)");
}

Rule skip_rule(std::string pattern, std::string label) {
  return make_rule(std::move(pattern), 0, kAnyDims, Treatment::skip, std::move(label));
}

bool matches(const Rule& rule, const Parameter& parameter, std::string_view bare_name) noexcept {
  const std::size_t dims = parameter.shape.size();
  if (std::cmp_less(dims, rule.min_dims) || std::cmp_greater(dims, rule.max_dims)) return false;
  return glob_match(rule.name_pattern, parameter.name) || glob_match(rule.name_pattern, bare_name);
}

// What torch's wrappers insert as a component of their own: DataParallel and DDP, torch.compile, FSDP1.
bool is_wrapper(std::string_view component) noexcept {
  constexpr std::array<std::string_view, 3> kWrappers = {"module", "_orig_mod", "_fsdp_wrapped_module"};
  return std::find(kWrappers.begin(), kWrappers.end(), component) != kWrappers.end();
}

}  // namespace

const char* to_string(Treatment treatment) noexcept {
  switch (treatment) {
    case Treatment::spectral:
      return "spectral";
    case Treatment::norm:
      return "norm";
    case Treatment::skip:
      return "skip";
  }
  return "unknown";
}

// Stacked experts: (e, m, n) is e matrices, and (e, n), where the name says so, e vectors.
Rule expert_rule(std::string pattern, int dims, Treatment treatment, std::string label) {
  Rule rule = make_rule(std::move(pattern), dims, dims, treatment, std::move(label));
  rule.batch_axes = 1;
  return rule;
}

// The names are those of the published clipper (reference of the paper), where a name that contains LayerNorm is never
// skipped: hence the first two rules. Beside "lm_head" those of heads that stand at the top of a model: deeper inside,
// "output" and "head" are parts of attention.
std::vector<Rule> default_rules() {
  std::vector<Rule> rules = {vector_rule("*LayerNorm*"), matrix_rule("*LayerNorm*")};
  for (const char* name :
       {"word_embeddings", "position_embeddings", "token_type_embeddings", "embed_tokens", "wpe", "wte"}) {
    rules.push_back(skip_rule("*" + std::string(name) + "*", "embedding by name: skipped"));
  }
  for (const char* name : {"*lm_head*", "head.weight", "head.bias", "classifier.weight", "classifier.bias",
                           "output.weight", "output.bias", "embed_out.weight"}) {
    rules.push_back(skip_rule(name, "head by name: skipped"));
  }
  rules.push_back(expert_rule("*experts*", 3, Treatment::spectral, "experts: one matrix each"));
  rules.push_back(expert_rule("*experts*bias", 2, Treatment::norm, "biases of experts: one vector each, norm"));
  rules.push_back(vector_rule("*"));
  rules.push_back(matrix_rule("*"));
  return rules;
}

// A pattern may be written for the name as given or for the name without wrappers.
const Rule& find_rule(const std::vector<Rule>& rules, const Parameter& parameter) {
  const std::string bare_name = normalized_name(parameter.name);
  for (const Rule& rule : rules) {
    if (matches(rule, parameter, bare_name)) return rule;
  }
  throw InvalidArgument(detail::concat("none of ", rules.size(), " rules matches parameter \"", parameter.name,
                                       "\" with ", parameter.shape.size(), " axes"));
}

// The last component is the tensor's own name and stays, even if it is "module".
std::string normalized_name(std::string_view name) {
  std::string bare;
  for (std::size_t dot = name.find('.'); dot != std::string_view::npos; dot = name.find('.')) {
    if (!is_wrapper(name.substr(0, dot))) bare.append(name.substr(0, dot + 1));
    name.remove_prefix(dot + 1);
  }
  return bare.append(name);
}

}  // namespace spectralclip
