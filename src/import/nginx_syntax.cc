#include "import/nginx_syntax.h"

#include <algorithm>
#include <utility>

namespace evenkeel::import {
namespace {

constexpr std::size_t max_depth = 32;
constexpr std::string_view blanks = " \t\r\n";

struct Token {
  enum class Kind { word, semicolon, open, close, end };
  Kind kind = Kind::end;
  std::string text;
  int line = 0;
};

class Tokenizer {
 public:
  explicit Tokenizer(std::string_view text) : text_(text) {}

  std::variant<Token, SyntaxError> next();
  /// Skips a block of Lua, whose opening brace has been read.
  void skip_lua();
  int line() const { return line_; }

 private:
  char take();
  void skip_blanks();
  std::variant<Token, SyntaxError> quoted();
  Token word();

  std::string_view text_;
  std::size_t at_ = 0;
  int line_ = 1;
};

char Tokenizer::take() {
  const char c = text_[at_++];
  if (c == '\n') ++line_;
  return c;
}

void Tokenizer::skip_blanks() {
  while (at_ < text_.size()) {
    if (text_[at_] == '#') {
      while (at_ < text_.size() && text_[at_] != '\n') ++at_;
    } else if (blanks.find(text_[at_]) != std::string_view::npos) {
      take();
    } else {
      return;
    }
  }
}

std::variant<Token, SyntaxError> Tokenizer::quoted() {
  Token token{Token::Kind::word, {}, line_};
  const char quote = take();
  while (at_ < text_.size()) {
    const char c = take();
    if (c == quote) return token;
    const bool escapes = c == '\\' && at_ < text_.size() &&
                         std::string_view("\"'\\").find(text_[at_]) != std::string_view::npos;
    token.text += escapes ? take() : c;
  }
  return SyntaxError{token.line, "a quoted text that never ends"};
}

Token Tokenizer::word() {
  Token token{Token::Kind::word, {}, line_};
  while (at_ < text_.size()) {
    const char c = text_[at_];
    const bool of_variable = token.text.ends_with('$') && c == '{';
    if (of_variable) {
      while (at_ < text_.size() && text_[at_] != '}' && text_[at_] != '\n') token.text += take();
      if (at_ < text_.size() && text_[at_] == '}') token.text += take();
      continue;
    }
    if (blanks.find(c) != std::string_view::npos || c == ';' || c == '{') break;
    token.text += take();
    if (c == '\\' && at_ < text_.size()) token.text += take();
  }
  return token;
}

std::variant<Token, SyntaxError> Tokenizer::next() {
  skip_blanks();
  if (at_ == text_.size()) return Token{Token::Kind::end, {}, line_};
  const char c = text_[at_];
  if (c == '"' || c == '\'') return quoted();
  if (c == ';' || c == '{' || c == '}') {
    const auto kind = c == ';'   ? Token::Kind::semicolon
                      : c == '{' ? Token::Kind::open
                                 : Token::Kind::close;
    return Token{kind, std::string(1, take()), line_};
  }
  return word();
}

void Tokenizer::skip_lua() {
  const auto skip_past = [&](std::string_view end) {
    const std::size_t found = std::min(text_.find(end, at_), text_.size());
    while (at_ < std::min(found + end.size(), text_.size())) take();
  };
  for (int depth = 1; at_ < text_.size() && depth > 0;) {
    const char c = take();
    if (c == '{') ++depth;
    if (c == '}') --depth;
    const bool comment = c == '-' && text_.substr(at_).starts_with('-');
    if (comment) take();
    if (text_.substr(at_ - 1).starts_with("[[") ||
        (comment && text_.substr(at_).starts_with("[["))) {
      skip_past("]]");
    } else if (comment) {
      skip_past("\n");
    } else if (c == '"' || c == '\'') {
      while (at_ < text_.size() && text_[at_] != '\n') {
        const char next = take();
        if (next == c) break;
        if (next == '\\' && at_ < text_.size()) take();
      }
    }
  }
}

/// Builds the tree of directives; the innermost open block is the last of `open`.
class Parser {
 public:
  explicit Parser(std::string_view text) : tokens_(text) {}

  std::variant<NginxDirective, SyntaxError> parse();

 private:
  std::optional<SyntaxError> take(Token token);
  std::optional<SyntaxError> open_block(int line);
  std::optional<SyntaxError> close_block(int line);

  Tokenizer tokens_;
  std::vector<NginxDirective> open_{1};
  std::vector<std::string> words_;
  int first_line_ = 0;
  std::size_t count_ = 0;
};

std::optional<SyntaxError> Parser::open_block(int line) {
  if (words_.empty()) return SyntaxError{line, "a block without a name"};
  if (open_.size() == max_depth) return SyntaxError{line, "blocks are nested too deeply"};
  NginxDirective block{std::exchange(words_, {}), first_line_, {}};
  if (block.name().ends_with("_by_lua_block")) {
    tokens_.skip_lua();
    open_.back().children.push_back(std::move(block));
  } else {
    open_.push_back(std::move(block));
  }
  return std::nullopt;
}

std::optional<SyntaxError> Parser::close_block(int line) {
  if (!words_.empty()) return SyntaxError{first_line_, "'" + words_.front() + "' lacks its ';'"};
  if (open_.size() == 1) return SyntaxError{line, "a '}' without its '{'"};
  NginxDirective block = std::move(open_.back());
  open_.pop_back();
  open_.back().children.push_back(std::move(block));
  return std::nullopt;
}

std::optional<SyntaxError> Parser::take(Token token) {
  switch (token.kind) {
    case Token::Kind::word:
      if (words_.empty()) first_line_ = token.line;
      words_.push_back(std::move(token.text));
      break;
    case Token::Kind::semicolon:
      if (words_.empty()) break;
      open_.back().children.push_back({std::exchange(words_, {}), first_line_, {}});
      break;
    case Token::Kind::open: return open_block(token.line);
    case Token::Kind::close: return close_block(token.line);
    case Token::Kind::end: break;
  }
  return std::nullopt;
}

std::variant<NginxDirective, SyntaxError> Parser::parse() {
  for (;;) {
    auto token = tokens_.next();
    if (auto* error = std::get_if<SyntaxError>(&token)) return std::move(*error);
    Token& read = std::get<Token>(token);
    if (read.kind == Token::Kind::end) break;
    if (++count_ > max_statements) return SyntaxError{read.line, "the file has too many words"};
    if (auto error = take(std::move(read))) return std::move(*error);
  }
  if (!words_.empty()) return SyntaxError{first_line_, "'" + words_.front() + "' lacks its ';'"};
  if (open_.size() > 1) return SyntaxError{open_.back().line, "a '{' without its '}'"};
  return std::move(open_.front());
}

}  // namespace

std::variant<NginxDirective, SyntaxError> parse_nginx(std::string_view text) {
  return Parser(text).parse();
}

}  // namespace evenkeel::import
