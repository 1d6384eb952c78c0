// Reads a whole JSON document token by token, and says where its values are.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "evenkeel/http/inference_info.h"
#include "evenkeel/json/scanner.h"

namespace evenkeel {

/// The tokens of a document that is there as a whole. Nothing more can be read once `failed`.
class JsonPieces {
 public:
  explicit JsonPieces(std::string_view document) : rest_(document) {}

  json::Token next() {
    const json::Token token = scanner_.next(rest_);
    failed_ = failed_ || token == json::Token::malformed || token == json::Token::more;
    return token;
  }
  /// True if the document is malformed, or has ended too early.
  bool failed() const { return failed_; }
  /// True if nothing but white space follows.
  bool ends() { return !failed_ && scanner_.next(rest_) == json::Token::more && scanner_.finish(); }

  /// The next key of the object that was opened, as it is written. Nothing: the object has ended,
  /// or the document has failed. A key with escapes may be any, and fails.
  std::optional<std::string_view> next_key() {
    const json::Token token = next();
    if (token == json::Token::object_end) return std::nullopt;
    failed_ = failed_ || token != json::Token::key || scanner_.escaped();
    return failed_ ? std::nullopt : std::optional(scanner_.text());
  }
  /// The place of the value that begins with this token, which is read to its end. `leaves`: gets
  /// the number of values in it that are no containers, itself among them.
  BodyRange skip(json::Token token, std::uint64_t* leaves = nullptr) {
    if (!is_container(token)) {
      if (leaves != nullptr) ++*leaves;
      return value();
    }
    const std::uint64_t begin = scanner_.offset() - 1;
    const std::size_t depth = scanner_.depth();
    while (!failed_ && scanner_.depth() >= depth) {
      const json::Token inner = next();
      const bool is_value = inner >= json::Token::text && !is_container(inner);
      if (leaves != nullptr && is_value) ++*leaves;
    }
    return {begin, scanner_.offset()};
  }
  BodyRange skip_value() { return skip(next()); }
  /// The place of the last value that is no container.
  BodyRange value() const { return {scanner_.value_begin(), scanner_.offset()}; }
  /// The byte behind the last token.
  std::uint64_t offset() const { return scanner_.offset(); }
  const json::Scanner& scanner() const { return scanner_; }
  /// The last number, if it is whole and not negative.
  std::optional<std::uint64_t> count() const {
    const json::Number& number = scanner_.number();
    return number.integer && !number.negative ? std::optional(number.magnitude) : std::nullopt;
  }
  void fail() { failed_ = true; }

 private:
  static bool is_container(json::Token token) {
    return token == json::Token::object_begin || token == json::Token::array_begin;
  }

  json::Scanner scanner_;
  std::string_view rest_;
  bool failed_ = false;
};

}  // namespace evenkeel
