// SPDX-License-Identifier: Apache-2.0
// Keys of the task gpt2-fineweb. The defaults are GPT-2's smallest.
#pragma once

#include <cstdint>
#include <string>

#include "config/key_group.h"
#include "require.h"

namespace spectralclip::lab {

struct Gpt2Keys {
  std::int64_t layers = 12;
  std::int64_t heads = 12;
  std::int64_t width = 768;
  std::int64_t context = 1024;
  std::int64_t vocabulary = 50257;
  double dropout = 0.0;
  std::string init = "random";
  std::string set = "fineweb";
  std::string validation = "found";
  std::string order = "sequential";
  std::int64_t eval_samples = 160;
  std::int64_t final_samples = 1000;

  template <class See>
  void visit(See&& see) {
    see("gpt2.layers", layers, between(1, 1000), "blocks");
    see("gpt2.heads", heads, between(1, 1000), "of attention; they divide the width");
    see("gpt2.width", width, between(1, 1e5), "of the residual stream");
    see("gpt2.context", context, between(1, 1e5), "tokens that are seen at once");
    see("gpt2.vocabulary", vocabulary, between(2, 65536), "tokens");
    see("gpt2.dropout", dropout, Range{.low = 0, .high = 1, .open_high = true}, "everywhere GPT-2 has it");
    see("gpt2.init", init, AnyValue{"random, or a model.safetensors or llm.c model file"}, "first weights");
    see("gpt2.set", set, Choice{{"fineweb", "wikitext2"}}, "the token shards that are looked for without data.path");
    see("gpt2.validation", validation, AnyValue{"file or glob"},
        "validation shards beside those of data.path; else the last tenth of the tokens validates");
    see("gpt2.order", order, Choice{{"sequential", "shuffled", "random"}},
        "llm.c's loader from the first token on, the same with its shuffle, or crops at random places");
    see("gpt2.eval_samples", eval_samples, at_least(1), "validation windows at each evaluation …");
    see("gpt2.final_samples", final_samples, at_least(1), "… and windows of both sets at the last one");
  }

  void validate() const {
    SPECTRALCLIP_REQUIRE(width % heads == 0, "gpt2.width = ", width, ": expected a multiple of gpt2.heads = ", heads);
  }
};

inline KeyGroup gpt2_keys() { return KeyGroup(Gpt2Keys{}); }

}  // namespace spectralclip::lab
