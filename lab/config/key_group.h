// SPDX-License-Identifier: Apache-2.0
// Keys that a task brings: a struct of its own with defaults and one visitor,
//
//   struct MlpKeys {
//     std::int64_t width = 100;
//     template <class See>
//     void visit(See&& see) { see("mlp.width", width, between(1, 1e5), "of the hidden layers"); }
//     void validate() const;  // optional: what ranges cannot say
//   };
//
// held here whatever its type, so that Config knows no task. The list of all of them is made by the build from
// lab/tasks/*/keys.h.
#pragma once

#include <any>
#include <cstdint>
#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "config/allowed.h"

namespace spectralclip::lab {

using KeyField = std::variant<std::string*, bool*, std::int64_t*, double*, std::vector<double>*>;
using KeyAllowed = std::variant<Range, Choice, AnyValue>;
using SeeKey = std::function<void(const char* key, KeyField field, const KeyAllowed& allowed, const char* help)>;

class KeyGroup {
 public:
  template <class Keys>
  requires(!std::is_same_v<Keys, KeyGroup>) explicit KeyGroup(Keys defaults)
      : keys_(std::move(defaults)), visit_(&visit_as<Keys>), validate_(&validate_as<Keys>) {}

  // Null when it holds another struct.
  template <class Keys>
  [[nodiscard]] const Keys* as() const noexcept {
    return std::any_cast<Keys>(&keys_);
  }
  void visit(const SeeKey& see) { visit_(keys_, see); }
  void validate() const { validate_(keys_); }

 private:
  template <class Keys>
  static void visit_as(std::any& keys, const SeeKey& see) {
    std::any_cast<Keys&>(keys).visit([&](const char* key, auto& field, const auto& allowed, const char* help) {
      see(key, KeyField(&field), KeyAllowed(allowed), help);
    });
  }
  template <class Keys>
  static void validate_as(const std::any& keys) {
    if constexpr (requires(const Keys& one) { one.validate(); }) std::any_cast<const Keys&>(keys).validate();
  }

  std::any keys_;
  void (*visit_)(std::any&, const SeeKey&);
  void (*validate_)(const std::any&);
};

// One of each task, with its defaults, in order of the folders' names.
[[nodiscard]] const std::vector<KeyGroup>& task_key_groups();

}  // namespace spectralclip::lab
