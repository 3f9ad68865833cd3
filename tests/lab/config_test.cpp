// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <set>

#include "config/effect.h"
#include "config/keys.h"
#include "config/source.h"
#include "spectralclip/error.h"
#include "tasks/mlp/keys.h"

namespace spectralclip::lab {
namespace {

const std::vector<std::string> kAllGroups = {"train", "record", "data",  "optimizer", "clip", "noise",
                                             "mlp",   "trace",  "rates", "nanogpt",   "gpt2"};

std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST(Keys, AreUniqueAndExplained) {
  std::set<std::string> seen;
  for (const KeyInfo& info : keys_of(Config{})) {
    EXPECT_TRUE(seen.insert(info.key).second) << info.key << " is declared twice";
    EXPECT_FALSE(info.allowed.empty()) << info.key;
    EXPECT_FALSE(info.help.empty()) << info.key;
  }
  for (const char* key : {"train.steps", "optimizer.lr", "clip.tau", "clip.method", "clip.threshold", "noise.alpha"})
    EXPECT_TRUE(seen.count(key)) << key;
}

// Every key takes its own value back, so that what a run records is what a run can be given.
TEST(Keys, TakeTheirOwnText) {
  for (const KeyInfo& info : keys_of(Config{})) {
    if (info.value.empty()) continue;  // the name, before a preset gives it one
    Config config;
    EXPECT_NO_THROW(set_key(config, info.key, info.value)) << info.key << " = " << info.value;
  }
}

TEST(Keys, SetWhatTheyName) {
  Config config;
  set_key(config, "optimizer.lr", "0.25");
  set_key(config, "clip.tau", "0.5");
  set_key(config, "clip.threshold", "quantile");
  set_key(config, "clip.method", "gram");
  set_key(config, "clip.rank", "7");
  set_key(config, "trace.taus", "0.5, 2");
  set_key(config, "optimizer.nesterov", "true");
  EXPECT_EQ(config.optimizer.lr, 0.25);
  EXPECT_EQ(config.clip.threshold.tau, 0.5);
  EXPECT_EQ(config.clip.threshold.kind, ThresholdKind::quantile);
  EXPECT_EQ(config.clip.options.method, Method::gram);
  EXPECT_EQ(config.clip.options.rank, 7);
  EXPECT_EQ(config.trace.taus, (std::vector{0.5, 2.0}));
  EXPECT_TRUE(config.optimizer.nesterov);
}

TEST(Keys, RefuseWithKeyValueAndRange) {
  Config config;
  const auto refused = [&](const char* key, const char* value) {
    return message_of([&] { set_key(config, key, value); });
  };
  EXPECT_EQ(refused("train.steps", "0"), "train.steps = \"0\": expected integer in [1, 1000000000]");
  EXPECT_EQ(refused("train.steps", "3.5"), "train.steps = \"3.5\": expected integer in [1, 1000000000]");
  EXPECT_EQ(refused("optimizer.momentum", "1"), "optimizer.momentum = \"1\": expected number in [0, 1)");
  EXPECT_EQ(refused("optimizer.lr", "nan"), "optimizer.lr = \"nan\": expected number >= 0");
  EXPECT_EQ(refused("optimizer.lr", ""), "optimizer.lr = \"\": expected number >= 0");
  EXPECT_EQ(refused("optimizer.kind", "sdgm"), "optimizer.kind = \"sdgm\": expected sgd, sgdm, adam, adamw, muon");
  EXPECT_EQ(refused("trace.taus", "1,,2"),
            "trace.taus = \"1,,2\": expected numbers, each a number >= 0, with commas between");
  EXPECT_NE(refused("clip.method", "svd").find("clip.method"), std::string::npos);
  EXPECT_NE(refused("clip.method", "svd").find("tracked"), std::string::npos);
  EXPECT_EQ(refused("optimiser.lr", "1"), "no key is called \"optimiser.lr\"; did you mean \"optimizer.lr\"?");
  EXPECT_EQ(config.train.steps, Config{}.train.steps) << "a refused value was kept";
}

TEST(Keys, AssignmentsAreSplitAtTheFirstEquals) {
  Config config;
  EXPECT_EQ(set_assignment(config, " optimizer.lr = 1e-2 "), "optimizer.lr");
  EXPECT_EQ(config.optimizer.lr, 1e-2);
  set_assignment(config, "name=a=b");
  EXPECT_EQ(config.name, "a=b");
  EXPECT_NE(message_of([&] { set_assignment(config, "optimizer.lr"); }).find("key=value"), std::string::npos);
}

TEST(Toml, ReadsBackAsTheSame) {
  Config config;
  config.name = "quotes \" and \\ and\ttabs";
  config.optimizer.lr = 0.1 + 0.2;  // needs 17 digits
  config.clip.options.rank = 12;
  config.clip.threshold.cap = 3;
  config.trace.taus = {1, 2.5};
  config.seed = (std::uint64_t{1} << 53) + 1;
  const std::string text = to_toml(config, kAllGroups);
  const Resolved read = resolve_text(text, "somewhere.toml");
  EXPECT_EQ(to_toml(read.config, kAllGroups), text);
  EXPECT_EQ(read.config.optimizer.lr, config.optimizer.lr);
  EXPECT_EQ(read.config.clip.options.rank, config.clip.options.rank);
  EXPECT_EQ(read.config.seed, config.seed);
  EXPECT_EQ(read.config.name, config.name);
}

TEST(Toml, HoldsOnlyTheGroupsOfTheTask) {
  const std::string text = to_toml(Config{}, {"train"});
  EXPECT_NE(text.find("[train]"), std::string::npos);
  EXPECT_EQ(text.find("[clip]"), std::string::npos);
}

TEST(Source, RefusesWithFileLineAndReason) {
  const auto refused = [](const char* text) { return message_of([&] { (void)resolve_text(text, "my.toml"); }); };
  EXPECT_NE(refused("[train]\nsteps = = 3\n").find("my.toml, line 2"), std::string::npos);
  EXPECT_EQ(refused("[train]\nstps = 3\n"), "my.toml: no key is called \"train.stps\"; did you mean \"train.steps\"?");
  EXPECT_EQ(refused("[train]\nsteps = \"3\"\n"), "my.toml: train.steps = '3': expected an integer, without quotes");
  EXPECT_EQ(refused("[optimizer]\nkind = 3\n"), "my.toml: optimizer.kind = 3: expected text");
  EXPECT_EQ(refused("[optimizer]\nnesterov = 1\n"), "my.toml: optimizer.nesterov = 1: expected true or false");
  EXPECT_NE(refused("extends = \"nothing\"\n").find("is no preset"), std::string::npos);
  EXPECT_NE(refused("[sweep]\ntrials = 3\n").find("spectralclip sweep"), std::string::npos);
}

TEST(Source, PresetsAllResolve) {
  ASSERT_GE(presets().size(), 7U);
  for (const Preset& preset : presets()) {
    EXPECT_FALSE(preset.summary.empty()) << preset.name << " does not say what it is";
    if (preset.is_sweep) continue;
    EXPECT_NO_THROW({
      const Resolved resolved = resolve(preset.name);
      EXPECT_EQ(resolved.config.name, preset.name);
    }) << preset.name;
  }
}

TEST(Source, PresetExtendsAndAssignmentsComeLast) {
  const Resolved row = resolve("mlp-heavy-tail-sgdm-spectral-quantile", {"clip.quantile=0.5", "train.steps=7"});
  EXPECT_EQ(row.config.task, "mlp-heavy-tail");
  EXPECT_EQ(row.config.clip.kind, "spectral");  // the base says none
  EXPECT_EQ(row.config.clip.threshold.quantile, 0.5);
  EXPECT_EQ(row.config.train.steps, 7);
  EXPECT_EQ(row.config.optimizer.lr, 8.54e-3);
}

TEST(Source, NamesTheNearestPreset) {
  EXPECT_NE(message_of([] { (void)resolve("mlp-heavy-tail-adm"); }).find("did you mean \"mlp-heavy-tail-adam\"?"),
            std::string::npos);
}

TEST(Effect, SettingsOfOtherKindsDoNothing) {
  const std::map<std::string, std::string> adam = {{"optimizer.kind", "adam"}, {"clip.kind", "global_norm"}};
  EXPECT_TRUE(has_effect(adam, "optimizer.lr"));
  EXPECT_TRUE(has_effect(adam, "optimizer.beta1"));
  EXPECT_FALSE(has_effect(adam, "optimizer.momentum_form"));
  EXPECT_TRUE(has_effect(adam, "clip.max_norm"));
  EXPECT_FALSE(has_effect(adam, "clip.quantile"));
  const std::map<std::string, std::string> quantile = {{"clip.kind", "spectral"}, {"clip.threshold", "quantile"}};
  EXPECT_TRUE(has_effect(quantile, "clip.quantile"));
  EXPECT_TRUE(has_effect(quantile, "clip.method"));
  EXPECT_FALSE(has_effect(quantile, "clip.tau"));
  EXPECT_FALSE(has_effect(quantile, "clip.max_norm"));
}

TEST(Validate, RefusesWhatKeysCannotSeeAlone) {
  EXPECT_NE(message_of([] { (void)resolve("mlp-heavy-tail", {"mlp.factors=200"}); }).find("mlp.inputs = 100"),
            std::string::npos);
  EXPECT_NE(message_of([] {
              (void)resolve("mlp-heavy-tail", {"optimizer.nesterov=true", "optimizer.momentum_form=ema"});
            }).find("nesterov"),
            std::string::npos);
}

TEST(Effect, AdamBesideAnotherOptimizerHasItsKeys) {
  std::map<std::string, std::string> settings{{"optimizer.kind", "sgdm"}, {"optimizer.vectors", "same"}};
  EXPECT_FALSE(has_effect(settings, "optimizer.beta2"));
  EXPECT_FALSE(has_effect(settings, "optimizer.vector_lr"));
  settings["optimizer.vectors"] = "adam";
  EXPECT_TRUE(has_effect(settings, "optimizer.beta2"));
  EXPECT_TRUE(has_effect(settings, "optimizer.vector_lr"));
  settings = {{"optimizer.kind", "adamw"}, {"optimizer.vectors", "same"}};
  EXPECT_TRUE(has_effect(settings, "optimizer.beta2"));
}

TEST(TaskKeys, AreSetListedAndCheckedLikeAnyOther) {
  Config config;
  set_key(config, "mlp.width", "7");
  EXPECT_EQ(config.of<MlpKeys>().width, 7);
  EXPECT_EQ(Config{}.of<MlpKeys>().width, 100) << "configurations share their tasks' keys";
  EXPECT_THROW(set_key(config, "mlp.width", "0"), InvalidArgument);
  EXPECT_THROW(set_key(config, "mlp.order", "sorted"), InvalidArgument);
  config.of<MlpKeys>().factors = 1000;
  EXPECT_THROW(validate(config), InvalidArgument);
}

}  // namespace
}  // namespace spectralclip::lab
