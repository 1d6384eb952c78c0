#include "evenkeel/base/regex.h"

#include <re2/re2.h>

namespace evenkeel {
namespace {

/// Limits one expression with its automata, which are built as texts need them.
constexpr std::int64_t max_bytes = 1 << 20;
/// Bounds what a byte of text may cost.
constexpr int max_instructions = 2000;

re2::RE2::Options options() {
  re2::RE2::Options options(re2::RE2::Latin1);  // bytes that are no UTF-8 match '.', too
  options.set_log_errors(false);
  options.set_max_mem(max_bytes);
  return options;
}

re2::StringPiece piece(std::string_view text) { return {text.data(), text.size()}; }

}  // namespace

Regex::Regex(std::string_view pattern)
    : expression_(std::make_shared<const re2::RE2>(piece(pattern), options())) {}

std::string Regex::problem() const {
  if (!expression_->ok()) return expression_->error();
  if (expression_->ProgramSize() <= max_instructions) return "";
  return "it is too large: counted repetitions such as {1,500} are written out";
}

std::string Regex::problem_of_replacement(std::string_view replacement) const {
  std::string problem;
  expression_->CheckRewriteString(piece(replacement), &problem);
  return problem;
}

bool Regex::matches(std::string_view text) const {
  return re2::RE2::FullMatch(piece(text), *expression_);
}

bool Regex::replace_first(std::string& text, std::string_view replacement) const {
  return re2::RE2::Replace(&text, *expression_, piece(replacement));
}

}  // namespace evenkeel
