// SPDX-License-Identifier: Apache-2.0
// A strict RFC 8259 reader for the tests: whole input or nullopt, no extensions, repeated keys refused. Independent of
// the writer, so that both cannot be wrong alike.
#pragma once

#include <charconv>
#include <cstdlib>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <variant>
#include <vector>

namespace spectralclip::testing {

struct Json {
  std::variant<std::nullptr_t, bool, double, std::string, std::vector<Json>, std::map<std::string, Json>> value;

  [[nodiscard]] bool is_null() const { return std::holds_alternative<std::nullptr_t>(value); }
  [[nodiscard]] bool flag() const { return std::get<bool>(value); }
  [[nodiscard]] double number() const { return std::get<double>(value); }
  [[nodiscard]] const std::string& text() const { return std::get<std::string>(value); }
  [[nodiscard]] const std::vector<Json>& items() const { return std::get<std::vector<Json>>(value); }
  [[nodiscard]] const std::map<std::string, Json>& members() const {
    return std::get<std::map<std::string, Json>>(value);
  }
  [[nodiscard]] const Json& at(const std::string& key) const { return members().at(key); }
};

class JsonReader {
 public:
  [[nodiscard]] static std::optional<Json> read(std::string_view text) {
    JsonReader reader(text);
    Json json;
    if (!reader.value(json)) return std::nullopt;
    reader.space();
    return reader.rest_.empty() ? std::optional(json) : std::nullopt;
  }

 private:
  explicit JsonReader(std::string_view text) : rest_(text) {}

  void space() {
    while (!rest_.empty() && std::string_view(" \t\r\n").find(rest_[0]) != std::string_view::npos)
      rest_.remove_prefix(1);
  }
  bool take(std::string_view token) {
    if (rest_.substr(0, token.size()) != token) return false;
    rest_.remove_prefix(token.size());
    return true;
  }
  bool take_token(std::string_view token) {
    space();
    return take(token);
  }

  bool value(Json& json) {
    space();
    if (rest_.empty()) return false;
    if (rest_[0] == '{') return object(json);
    if (rest_[0] == '[') return array(json);
    if (rest_[0] == '"') return string(json.value.emplace<std::string>());
    if (take("null")) return json.value = nullptr, true;
    if (take("true")) return json.value = true, true;
    if (take("false")) return json.value = false, true;
    return number(json.value.emplace<double>());
  }

  bool object(Json& json) {
    auto& members = json.value.emplace<std::map<std::string, Json>>();
    take("{");
    if (take_token("}")) return true;
    do {
      std::string key;
      Json member;
      space();
      if (!string(key) || !take_token(":") || !value(member) || !members.emplace(key, member).second) return false;
    } while (take_token(","));
    return take_token("}");
  }

  bool array(Json& json) {
    auto& items = json.value.emplace<std::vector<Json>>();
    take("[");
    if (take_token("]")) return true;
    do {
      if (!value(items.emplace_back())) return false;
    } while (take_token(","));
    return take_token("]");
  }

  bool digits(std::string& token) {
    const std::size_t before = token.size();
    for (; !rest_.empty() && rest_[0] >= '0' && rest_[0] <= '9'; rest_.remove_prefix(1)) token += rest_[0];
    return token.size() > before;
  }

  bool number(double& x) {
    std::string token = take("-") ? "-" : "";
    if (take("0")) {
      token += '0';  // and no digit may follow: the caller meets it and fails
    } else if (!digits(token)) {
      return false;
    }
    if (take(".") && (token += '.', !digits(token))) return false;
    if (take("e") || take("E")) {
      token += 'e';
      if (take("-"))
        token += '-';
      else
        take("+");
      if (!digits(token)) return false;
    }
    return std::from_chars(token.data(), token.data() + token.size(), x).ec == std::errc();  // whatever the locale
  }

  bool string(std::string& text) {
    if (!take("\"")) return false;
    while (!rest_.empty() && rest_[0] != '"') {
      if (static_cast<unsigned char>(rest_[0]) < 0x20) return false;
      if (rest_[0] == '\\' ? !escape(text) : (text += rest_[0], rest_.remove_prefix(1), false)) return false;
    }
    return take("\"");
  }

  // \u is read for ASCII only: all that the writer has reason to escape.
  bool escape(std::string& text) {
    rest_.remove_prefix(1);
    if (take("u00") && rest_.size() >= 2) {
      char* end = nullptr;
      const std::string hex(rest_.substr(0, 2));
      text += static_cast<char>(std::strtol(hex.c_str(), &end, 16));
      rest_.remove_prefix(2);
      return end == hex.c_str() + 2;
    }
    constexpr std::string_view kNames = "\"\\/bfnrt";
    constexpr std::string_view kMeanings = "\"\\/\b\f\n\r\t";
    const std::size_t i = rest_.empty() ? std::string_view::npos : kNames.find(rest_[0]);
    if (i == std::string_view::npos) return false;
    text += kMeanings[i];
    rest_.remove_prefix(1);
    return true;
  }

  std::string_view rest_;
};

}  // namespace spectralclip::testing
