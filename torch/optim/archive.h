// SPDX-License-Identifier: Apache-2.0
// Options and states to and from torch's archives. LibTorch's own macros spell torch:: and mean another namespace here.
// Names and fields of a struct are listed once, by its `fields()`, for writing, reading and comparing.
#pragma once

#include <torch/optim/optimizer.h>
#include <torch/optim/serialize.h>
#include <torch/serialize/archive.h>

#include <algorithm>
#include <array>
#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "require.h"

namespace spectralclip::torch {

template <class Value>
void write_field(::torch::serialize::OutputArchive& archive, const char* name, const Value& value) {
  if constexpr (std::is_enum_v<Value>) {
    archive.write(name, c10::IValue(static_cast<std::int64_t>(value)));
  } else if constexpr (std::is_same_v<Value, std::array<double, 3>>) {
    archive.write(name, c10::IValue(std::vector<double>(value.begin(), value.end())));
  } else if constexpr (std::is_same_v<Value, at::Tensor>) {
    if (value.defined()) archive.write(name, c10::IValue(value));  // absent means undefined
  } else {
    archive.write(name, c10::IValue(value));
  }
}

template <class Value>
void read_field(::torch::serialize::InputArchive& archive, const char* name, Value& value) {
  c10::IValue stored;
  if (!archive.try_read(name, stored)) {
    if constexpr (std::is_same_v<Value, at::Tensor>) {
      value = at::Tensor();
      return;
    }
    throw StateFileError(detail::concat("the archive has no \"", name, "\": it is not one of this optimizer"));
  }
  if constexpr (std::is_enum_v<Value>) {
    value = static_cast<Value>(stored.toInt());
  } else if constexpr (std::is_same_v<Value, std::array<double, 3>>) {
    const std::vector<double> list = stored.toDoubleVector();
    if (list.size() != value.size()) throw StateFileError(detail::concat("\"", name, "\" must have 3 numbers"));
    std::copy(list.begin(), list.end(), value.begin());
  } else {
    value = stored.to<Value>();
  }
}

// fields: a tuple of references; names: as many.
template <std::size_t N, class... Values>
void write_fields(::torch::serialize::OutputArchive& archive, const std::array<const char*, N>& names,
                  const std::tuple<Values&...>& fields) {
  static_assert(N == sizeof...(Values));
  std::size_t i = 0;
  std::apply([&](const auto&... value) { (write_field(archive, names[i++], value), ...); }, fields);
}

template <std::size_t N, class... Values>
void read_fields(::torch::serialize::InputArchive& archive, const std::array<const char*, N>& names,
                 const std::tuple<Values&...>& fields) {
  static_assert(N == sizeof...(Values));
  std::size_t i = 0;
  std::apply([&](auto&... value) { (read_field(archive, names[i++], value), ...); }, fields);
}

// Loads options and state of all groups; what the archive has no state for starts afresh. LibTorch's own load keeps the
// old state of such parameters, and leaves half of the groups changed when it throws.
template <class State, class Options>
void load_whole(::torch::serialize::InputArchive& archive, ::torch::optim::Optimizer& optimizer) {
  auto& state = optimizer.state();
  std::remove_reference_t<decltype(state)> old_state;
  std::swap(old_state, state);
  std::vector<Options> old_options;
  for (const auto& group : optimizer.param_groups()) {
    old_options.push_back(static_cast<const Options&>(group.options()));
  }
  try {
    ::torch::optim::serialize<State, Options>(archive, optimizer);
    for (const auto& group : optimizer.param_groups()) validate(static_cast<const Options&>(group.options()));
  } catch (...) {
    std::swap(old_state, state);
    for (std::size_t i = 0; i < old_options.size(); ++i) {
      static_cast<Options&>(optimizer.param_groups()[i].options()) = old_options[i];
    }
    throw;
  }
}

}  // namespace spectralclip::torch
