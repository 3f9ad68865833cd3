// SPDX-License-Identifier: Apache-2.0
#include "data/pickle.h"

#include <array>
#include <map>

#include "data/data_error.h"

namespace spectralclip::lab::data {
namespace {

using Kind = PickleValue::Kind;

// The stack machine of Python's pickletools, without anything that makes objects.
class Machine {
 public:
  Machine(std::span<const std::byte> bytes, const std::string& name) : bytes_(bytes), name_(name) {}

  Pickle run() {
    while (step()) {
    }
    if (stack_.size() != 1) refuse("more than one value");
    result_.value = stack_.back();
    return std::move(result_);
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw_data_error(name_, ": byte ", at_, " of the pickle: ", what,
                     "; dictionaries of strings and integers were expected");
  }
  std::uint64_t unsigned_bytes(std::size_t count) {
    if (bytes_.size() - at_ < count) refuse("the end comes too early");
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < count; ++i) value |= std::to_integer<std::uint64_t>(bytes_[at_ + i]) << (8 * i);
    at_ += count;
    return value;
  }
  void skip(std::uint64_t count) {
    if (bytes_.size() - at_ < count) refuse("the end comes too early");
    at_ += count;
  }
  void push_text(std::uint64_t length) {
    const std::size_t begin = at_;
    skip(length);
    stack_.push_back({Kind::text, 0, {reinterpret_cast<const char*>(bytes_.data()) + begin, at_ - begin}});
  }
  void push_integer(std::int64_t value) { stack_.push_back({Kind::integer, value, {}}); }
  PickleValue pop() {
    if (stack_.empty()) refuse("a value is missing");
    const PickleValue value = stack_.back();
    stack_.pop_back();
    return value;
  }
  void remember(std::uint64_t key) {
    if (stack_.empty()) refuse("a value is missing");
    memo_[key] = stack_.back();
  }
  void recall(std::uint64_t key) {
    const auto found = memo_.find(key);
    if (found == memo_.end()) refuse("an unknown memo");
    stack_.push_back(found->second);
  }
  Pickle::Dictionary& dictionary_on_top() {
    if (stack_.empty() || stack_.back().kind != Kind::dictionary) refuse("items of something that is no dictionary");
    return result_.dictionaries[static_cast<std::size_t>(stack_.back().number)];
  }
  void set_item() {
    const PickleValue value = pop(), key = pop();
    dictionary_on_top().emplace_back(key, value);
  }
  void set_items() {
    std::size_t mark = stack_.size();
    while (mark > 0 && stack_[mark - 1].kind != Kind::mark) --mark;
    if (mark == 0 || (stack_.size() - mark) % 2 != 0) refuse("items without their keys");
    const std::vector<PickleValue> items(stack_.begin() + static_cast<std::ptrdiff_t>(mark), stack_.end());
    stack_.resize(mark - 1);
    Pickle::Dictionary& dictionary = dictionary_on_top();
    for (std::size_t i = 0; i < items.size(); i += 2) dictionary.emplace_back(items[i], items[i + 1]);
  }
  void push_dictionary() {
    stack_.push_back({Kind::dictionary, static_cast<std::int64_t>(result_.dictionaries.size()), {}});
    result_.dictionaries.emplace_back();
  }

  bool step() {
    const auto opcode = static_cast<char>(unsigned_bytes(1));
    switch (opcode) {
      case '\x80':
        skip(1);
        break;  // PROTO
      case '\x95':
        skip(8);
        break;  // FRAME
      case '}':
        push_dictionary();
        break;  // EMPTY_DICT
      case '(':
        stack_.push_back({Kind::mark, 0, {}});
        break;  // MARK
      case 'X':
        push_text(unsigned_bytes(4));
        break;  // BINUNICODE
      case '\x8c':
        push_text(unsigned_bytes(1));
        break;  // SHORT_BINUNICODE
      case 'J':
        push_integer(static_cast<std::int32_t>(unsigned_bytes(4)));
        break;  // BININT
      case 'K':
        push_integer(static_cast<std::int64_t>(unsigned_bytes(1)));
        break;  // BININT1
      case 'M':
        push_integer(static_cast<std::int64_t>(unsigned_bytes(2)));
        break;  // BININT2
      case '\x94':
        remember(memo_.size());
        break;  // MEMOIZE
      case 'q':
        remember(unsigned_bytes(1));
        break;  // BINPUT
      case 'r':
        remember(unsigned_bytes(4));
        break;  // LONG_BINPUT
      case 'h':
        recall(unsigned_bytes(1));
        break;  // BINGET
      case 'j':
        recall(unsigned_bytes(4));
        break;  // LONG_BINGET
      case 's':
        set_item();
        break;  // SETITEM
      case 'u':
        set_items();
        break;  // SETITEMS
      case '.':
        return false;  // STOP
      default:
        refuse(detail::concat("opcode ", static_cast<int>(static_cast<unsigned char>(opcode))));
    }
    return true;
  }

  std::span<const std::byte> bytes_;
  const std::string& name_;
  std::size_t at_ = 0;
  std::vector<PickleValue> stack_;
  std::map<std::uint64_t, PickleValue> memo_;
  Pickle result_;
};

}  // namespace

const PickleValue* Pickle::find(const PickleValue& where, std::string_view key) const {
  if (where.kind != Kind::dictionary) return nullptr;
  const Dictionary& dictionary = dictionaries[static_cast<std::size_t>(where.number)];
  for (auto item = dictionary.rbegin(); item != dictionary.rend(); ++item) {
    if (item->first.kind == Kind::text && item->first.text == key) return &item->second;
  }
  return nullptr;
}

Pickle load_pickle(std::span<const std::byte> bytes, const std::string& name) { return Machine(bytes, name).run(); }

}  // namespace spectralclip::lab::data
