// Walks through JSON as its bytes arrive.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "evenkeel/base/ascii.h"
#include "evenkeel/base/byte_search.h"

namespace evenkeel {

/// Walks through JSON whose bytes may be cut anywhere, and shows a visitor the keys and values that
/// it knows. Keeps no bytes but those of a key or value that is cut, and never allocates. Does not
/// check anything: of text that is not JSON it may show whatever looks like it.
///
/// A visitor has these members:
///
///     std::uint8_t key(std::string_view name);  // its number; 0: the value does not matter
///     void string(std::string_view text);       // as written, without quotes; its beginning, at
///                                               // most `max_text` bytes, if bytes were cut in it
///     void number(std::uint64_t value);         // its integer part; not of negative ones
///     void opened();                            // an object or a list, which is the innermost now
///     void closing();                           // the innermost object or list
///
/// `string` is called for every string, `number` for the values of known keys.
template <class Visitor>
class JsonWalk {
 public:
  static constexpr std::size_t max_depth = 64;  ///< of objects and lists; nothing is shown below
  static constexpr std::size_t max_text = 64;

  explicit JsonWalk(Visitor& visitor) : visitor_(visitor) {}
  JsonWalk(const JsonWalk&) = delete;
  JsonWalk& operator=(const JsonWalk&) = delete;

  /// The next byte begins a document.
  void restart() {
    state_ = State::between;
    depth_ = 0;
    objects_ = 0;
  }
  /// The next byte follows this key of an object that is the outermost: as after a beginning that
  /// was read before.
  void restart_after(std::uint8_t key) {
    restart();
    depth_ = 1;
    objects_ = 1;
    object_bits_ |= 1;
    keys_[0] = object_keys_[0] = 0;
    key_ = key;
    state_ = State::before_value;
  }
  void read(std::string_view bytes);

  /// Open objects and lists.
  std::size_t depth() const { return depth_; }
  /// Open objects.
  std::size_t objects() const { return objects_; }
  bool in_object() const { return (object_bits_ >> (depth_ - 1) & 1) != 0; }
  /// The key of the value that is shown, or of the list that it is in.
  std::uint8_t key() const { return key_; }
  /// The key of the object `up` levels above the value: 0 is the one that it is in. An object in a
  /// list has the list's key. 0 above the outermost object.
  std::uint8_t parent(std::size_t up = 0) const {
    return objects_ > up ? object_keys_[objects_ - 1 - up] : std::uint8_t{0};
  }

 private:
  enum class State : std::uint8_t { between, string, before_value, number };

  static constexpr std::uint64_t max_number = 1'000'000'000'000'000'000;

  /// Quotes and brackets: in ASCII, '[' and '{', ']' and '}' differ in one bit.
  static bool is_structural(char byte) {
    const char folded = static_cast<char>(byte | 0x20);
    return byte == '"' || folded == '{' || folded == '}';
  }
  /// True if the byte may stand between a key and its value.
  static bool is_gap(char byte) {
    if (byte > ' ') return byte == ':';
    return byte == ' ' || byte == '\t' || byte == '\n' || byte == '\r';
  }
  static const char* find_structural(const char* at, const char* end);
  static const char* find_quote(const char* at, const char* end);

  static const char* end_of_plain_string(const char* at, const char* end);
  const char* enter_key(const char* at, const char* end);
  const char* enter_text(const char* at, const char* end);
  const char* read_structures(const char* at, const char* end);
  const char* read_structure(const char* at, const char* end);
  const char* read_string(const char* at, const char* end);
  const char* read_before_value(const char* at, const char* end);
  const char* read_number(const char* at, const char* end);
  void begin_string(bool is_key);
  void end_string(std::string_view part);
  void keep(std::string_view part);
  void open(bool is_object);
  void close();

  Visitor& visitor_;
  State state_ = State::between;
  bool is_key_ = false;   // the string that is read
  bool cut_ = false;      // it began in earlier bytes: `text_` holds them
  bool escaped_ = false;  // its next byte is escaped
  std::uint8_t key_ = 0;
  std::uint8_t text_size_ = 0;
  std::size_t depth_ = 0;
  std::size_t objects_ = 0;
  std::uint64_t object_bits_ = 0;  // by depth: an object, not a list
  std::uint64_t number_ = 0;
  std::array<std::uint8_t, max_depth> keys_{};         // by depth
  std::array<std::uint8_t, max_depth> object_keys_{};  // of the objects alone
  std::array<char, max_text> text_;
};

template <class Visitor>
void JsonWalk<Visitor>::read(std::string_view bytes) {
  const char* at = bytes.data();
  const char* const end = at + bytes.size();
  while (at != end) {
    switch (state_) {
      case State::between: at = read_structures(at, end); break;
      case State::string: at = read_string(at, end); break;
      case State::before_value: at = read_before_value(at, end); break;
      case State::number: at = read_number(at, end); break;
    }
  }
}

template <class Visitor>
const char* JsonWalk<Visitor>::find_structural(const char* at, const char* end) {
  for (; end - at >= Bytes16::size; at += Bytes16::size) {
    const Bytes16 bytes = Bytes16::load(at);
    const Bytes16 folded = bytes.with_bits(0x20);
    const std::uint32_t found = bytes.equal_to('"') | folded.equal_to('{') | folded.equal_to('}');
    if (found != 0) return at + std::countr_zero(found);
  }
  while (at != end && !is_structural(*at)) ++at;
  return at;
}

/// Most strings are short.
template <class Visitor>
[[gnu::always_inline]] inline const char* JsonWalk<Visitor>::find_quote(const char* at,
                                                                        const char* end) {
  if (end - at >= Bytes16::size) {
    const std::uint32_t found = Bytes16::load(at).equal_to('"');
    if (found != 0) return at + std::countr_zero(found);
    at += Bytes16::size;
  }
  const auto* quote =
      static_cast<const char*>(std::memchr(at, '"', static_cast<std::size_t>(end - at)));
  return quote == nullptr ? end : quote;
}

template <class Visitor>
const char* JsonWalk<Visitor>::read_structures(const char* at, const char* end) {
  while (at != end && state_ == State::between) at = read_structure(at, end);
  return at;
}

template <class Visitor>
const char* JsonWalk<Visitor>::read_structure(const char* at, const char* end) {
  if (*at == ',' && end - at > 1) ++at;  // as behind most values
  if (!is_structural(*at)) at = find_structural(at, end);
  if (at == end) return end;
  switch (*at) {
    case '"': {
      const bool is_key = depth_ > 0 && depth_ <= max_depth && in_object();
      return is_key ? enter_key(at + 1, end) : enter_text(at + 1, end);
    }
    case '{': open(true); break;
    case '[': open(false); break;
    default: close(); break;
  }
  return at + 1;
}

/// The end of a string that is all there and holds no quote, as most are; null: read_string is to
/// read it.
template <class Visitor>
[[gnu::always_inline]] inline const char* JsonWalk<Visitor>::end_of_plain_string(const char* at,
                                                                                 const char* end) {
  const char* const stop = find_quote(at, end);
  return stop == end || stop[-1] == '\\' ? nullptr : stop;
}

template <class Visitor>
[[gnu::always_inline]] inline const char* JsonWalk<Visitor>::enter_key(const char* at,
                                                                       const char* end) {
  const char* const stop = end_of_plain_string(at, end);
  if (stop == nullptr) {
    begin_string(true);
    return at;
  }
  key_ = visitor_.key({at, static_cast<std::size_t>(stop - at)});
  state_ = State::before_value;
  return read_before_value(stop + 1, end);
}

template <class Visitor>
[[gnu::always_inline]] inline const char* JsonWalk<Visitor>::enter_text(const char* at,
                                                                        const char* end) {
  const char* const stop = end_of_plain_string(at, end);
  if (stop == nullptr) {
    begin_string(false);
    return at;
  }
  state_ = State::between;
  if (depth_ <= max_depth) visitor_.string({at, static_cast<std::size_t>(stop - at)});
  return stop + 1;
}

template <class Visitor>
void JsonWalk<Visitor>::begin_string(bool is_key) {
  state_ = State::string;
  is_key_ = is_key;
  cut_ = false;
  escaped_ = false;
  text_size_ = 0;
}

template <class Visitor>
const char* JsonWalk<Visitor>::read_string(const char* at, const char* end) {
  const char* const begin = at;
  while (true) {
    const char* const stop = find_quote(at, end);
    const char* run = stop;  // of backslashes, which ends here
    while (run != at && run[-1] == '\\') --run;
    const bool carried = run == begin && escaped_;
    const bool is_escaped = ((stop - run) + carried) % 2 != 0;
    if (stop == end) {
      keep({begin, end});
      escaped_ = is_escaped;
      return end;
    }
    at = stop + 1;
    if (is_escaped) continue;
    end_string({begin, stop});
    return at;
  }
}

/// Keeps a part of a string that is cut.
template <class Visitor>
void JsonWalk<Visitor>::keep(std::string_view part) {
  cut_ = true;
  const std::size_t size = std::min(part.size(), text_.size() - text_size_);
  std::memcpy(text_.data() + text_size_, part.data(), size);
  text_size_ = static_cast<std::uint8_t>(text_size_ + size);
}

template <class Visitor>
void JsonWalk<Visitor>::end_string(std::string_view part) {
  if (cut_) {
    keep(part);
    part = {text_.data(), text_size_};
  }
  if (is_key_) {
    key_ = visitor_.key(part);
    state_ = State::before_value;
    return;
  }
  state_ = State::between;
  if (depth_ <= max_depth) visitor_.string(part);
}

template <class Visitor>
[[gnu::always_inline]] inline const char* JsonWalk<Visitor>::read_before_value(const char* at,
                                                                               const char* end) {
  while (at != end && is_gap(*at)) ++at;
  if (at == end) return end;
  if (*at == '"') return enter_text(at + 1, end);
  if (key_ == 0 || *at < '0' || *at > '9') {
    state_ = State::between;
    return at;
  }
  state_ = State::number;
  number_ = 0;
  return read_number(at, end);
}

template <class Visitor>
[[gnu::always_inline]] inline const char* JsonWalk<Visitor>::read_number(const char* at,
                                                                         const char* end) {
  for (; at != end && is_digit(*at); ++at) {
    if (number_ < max_number) number_ = number_ * 10 + static_cast<std::uint64_t>(*at - '0');
  }
  if (at == end) return end;
  state_ = State::between;
  visitor_.number(number_);
  return at;
}

template <class Visitor>
void JsonWalk<Visitor>::open(bool is_object) {
  state_ = State::between;
  if (++depth_ > max_depth) return;
  const std::uint64_t bit = std::uint64_t{1} << (depth_ - 1);
  // In a list, what is opened has the list's key.
  const bool in_list = depth_ > 1 && (object_bits_ & bit >> 1) == 0;
  const std::uint8_t key = depth_ == 1 ? std::uint8_t{0} : in_list ? keys_[depth_ - 2] : key_;
  keys_[depth_ - 1] = key;
  key_ = key;
  if (is_object) {
    object_bits_ |= bit;
    object_keys_[objects_++] = key;
  } else {
    object_bits_ &= ~bit;
  }
  visitor_.opened();
}

template <class Visitor>
void JsonWalk<Visitor>::close() {
  state_ = State::between;
  if (depth_ == 0) return;
  if (depth_ <= max_depth) {
    key_ = keys_[depth_ - 1];
    visitor_.closing();
    if (in_object()) --objects_;
  }
  --depth_;
  key_ = depth_ == 0 || depth_ > max_depth ? std::uint8_t{0} : keys_[depth_ - 1];
}

}  // namespace evenkeel
