#include "config/problems.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <tuple>
#include <utility>

#include "evenkeel/base/ascii.h"

namespace evenkeel {
namespace config_file {
namespace {

constexpr std::ptrdiff_t max_kept = 1000;  // problems until all are known

bool may_be_secret(std::string_view value) {
  constexpr std::size_t min_size = 6;
  constexpr std::size_t max_extension = 5;
  if (value.size() < min_size || value.find("${") != value.npos) return false;
  const bool is_path = std::string_view("/.~").find(value.front()) != std::string_view::npos;
  const std::size_t dot = value.rfind('.');
  const bool is_file = dot != value.npos && value.size() - dot - 1 <= max_extension;
  return !is_path && !is_file && type_of_plain(value) != PlainType::boolean &&
         value.find_first_not_of("0123456789") != value.npos;
}

/// Hides the values of a key for a secret, whatever their shape, also where YAML makes none of
/// them: what stands behind the key up to a comma, or the end of the line.
void hide_values_of(std::string_view key, std::string& text) {
  constexpr std::string_view marks = " \t\"'[]{},:@&*!|>%`\n";
  for (std::size_t at = text.find(key); at != text.npos; at = text.find(key, at)) {
    at = std::min(text.find_first_of(":\n", at), text.size());
    int depth = 0;
    while (at < text.size() && text[at] != '\n' && (text[at] != ',' || depth > 0)) {
      if (text[at] == '[' || text[at] == '{') ++depth;
      if (text[at] == ']' || text[at] == '}') --depth;
      const std::size_t begin = at;
      at = std::min(text.find_first_of(marks, at), text.size());
      const std::size_t size = at - begin;
      if (size == 0) ++at;
      if (size > 0 && may_be_secret(std::string_view(text).substr(begin, size)))
        text.replace(begin, size, size, '*');
    }
  }
}

bool is_before(const Problem& a, const Problem& b) {
  return std::tie(a.in_named_file, a.line, a.column, a.path, a.message) <
         std::tie(b.in_named_file, b.line, b.column, b.path, b.message);
}

}  // namespace

/// Hides the queries of URLs: they may have keys.
void hide_queries(std::string& text) {
  constexpr std::string_view ends = " \t\r\n\"'";
  for (std::size_t at = text.find("://"); at != text.npos; at = text.find("://", at + 1)) {
    const std::size_t query = text.find('?', at);
    const std::size_t end = std::min(text.find_first_of(ends, at), text.size());
    if (query < end) text.replace(query + 1, end - query - 1, end - query - 1, '*');
  }
}

void Report::add_affected(const std::string& path) {
  for (std::string key = path; !key.empty() && affected_paths_.insert(key).second;) {
    const std::size_t end = key.find_last_of(".[");
    key.resize(end == key.npos ? 0 : end);
  }
}

void Report::add_in_file(std::string file, const FileProblem& problem, std::string path) {
  add_affected(path);
  problems_.add({.file = std::move(file),
                 .line = problem.line,
                 .column = problem.column,
                 .path = std::move(path),
                 .message = problem.message,
                 .help = problem.help,
                 .in_named_file = true});
}

void Report::add(Mark mark, std::string path, std::string message, std::string help) {
  add_affected(path);
  problems_.add({file_, mark.line, mark.column, std::move(path), std::move(message),
                 std::move(help), Severity::error});
}

void Report::warn(Mark mark, std::string path, std::string message, std::string help) {
  warnings_.add({file_, mark.line, mark.column, std::move(path), std::move(message),
                 std::move(help), Severity::warning});
}

void Report::hide_secret(const std::string& value) {
  if (!may_be_secret(value)) return;
  secrets_.insert(value);
  variables.values.emplace(value, "***");
}

std::string Report::without_secrets(std::string text) const {
  for (const std::string& secret : secrets_) {
    for (std::size_t at = text.find(secret); at != text.npos; at = text.find(secret, at))
      text.replace(at, secret.size(), secret.size(), '*');
  }
  for (const std::string_view key : {"api_key", "token_file"}) hide_values_of(key, text);
  hide_queries(text);
  return text;
}

void Report::discard_from(int line) {
  const std::size_t discarded = std::erase_if(
      problems_.list, [line](const Problem& problem) { return problem.line >= line; });
  if (discarded > 0) problems_.more = 0;
}

void Report::First::add(Problem problem) {
  list.push_back(std::move(problem));
  if (std::ssize(list) < 2 * max_kept) return;
  std::ranges::nth_element(list, list.begin() + max_kept, is_before);
  list.resize(max_kept);
  more += max_kept;
}

std::vector<Problem> Report::in_order(First problems) const {
  std::vector<Problem>& list = problems.list;
  std::ranges::sort(list, is_before);
  const std::size_t more = problems.more + list.size() - std::min(list.size(), max_listed);
  list.resize(std::min(list.size(), max_listed));
  for (Problem& problem : list) {
    problem.message = variables.hide(std::move(problem.message));
    problem.help = variables.hide(std::move(problem.help));
    hide_queries(problem.message);
    hide_queries(problem.help);
  }
  if (more == 0) return std::move(list);
  list.push_back({.file = list.front().file,
                  .message = fmt::format("and {} more", more),
                  .severity = list.front().severity});
  return std::move(list);
}

std::vector<Problem> Report::take() { return in_order(std::exchange(problems_, {})); }

std::vector<Problem> Report::take_warnings() { return in_order(std::exchange(warnings_, {})); }

std::vector<std::string_view> split_lines(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    lines.push_back(line);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

namespace {

// The most problems that are rendered: those of one file, warnings included, are fewer.
constexpr std::size_t max_rendered = 2 * (Report::max_listed + 1);

// A line for a terminal: only the part around the column if it is long, and a caret below.
std::string excerpt(std::string_view line, int column) {
  constexpr int max_width = 160;
  constexpr int before = 100;
  const int from = column > max_width ? column - before : 1;
  std::string shown;
  std::string padding;
  int at = 0;
  for (char c : line) {
    const bool continues_a_character = (static_cast<unsigned char>(c) & 0xc0) == 0x80;
    if (!continues_a_character) ++at;
    if (at < from || at >= from + max_width) continue;
    const bool is_control = (static_cast<unsigned char>(c) < 0x20 && c != '\t') || c == 0x7f;
    shown += is_control ? '?' : c;
    if (at < column && !continues_a_character) padding += c == '\t' ? '\t' : ' ';
  }
  return fmt::format("  {}\n  {}^\n", shown, padding);
}

std::string one_line(std::string_view text) {
  std::string out;
  for (char c : text) out += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? ' ' : c;
  return out;
}

std::string_view to_string(Severity severity) {
  return severity == Severity::error ? "error" : "warning";
}

bool is_word_character(char c) { return is_letter_or_digit(c) || c == '_'; }

// True if `text` has the value at `at`; a short one only as a word.
bool has_value_at(std::string_view text, std::size_t at, std::string_view value) {
  constexpr std::size_t min_secret = 4;
  if (!text.substr(at).starts_with(value)) return false;
  const std::size_t end = at + value.size();
  return value.size() >= min_secret || ((at == 0 || !is_word_character(text[at - 1])) &&
                                        (end == text.size() || !is_word_character(text[end])));
}

}  // namespace
}  // namespace config_file

std::string VariablesUsed::hide(std::string text) const {
  std::string shown;
  for (std::size_t at = 0; at < text.size();) {
    const std::pair<const std::string, std::string>* longest = nullptr;
    for (auto each = values.lower_bound(text.substr(at, 1));
         each != values.end() && each->first.front() == text[at]; ++each) {
      if (config_file::has_value_at(text, at, each->first)) longest = &*each;  // sorted
    }
    shown += longest == nullptr ? text.substr(at, 1) : longest->second;
    at += longest == nullptr ? 1 : longest->first.size();
  }
  config_file::hide_queries(shown);
  return shown;
}

void Places::locate(Problem& problem) const {
  for (std::string_view path = problem.path; problem.line == 0 && !path.empty();) {
    const auto found = places_.find(path);
    if (found != places_.end()) {
      problem.line = found->second.line;
      problem.column = found->second.column;
    }
    const std::size_t cut = path.find_last_of(".[");
    path = path.substr(0, cut == path.npos ? 0 : cut);
  }
}

std::string render_problems(const std::vector<Problem>& problems, std::string_view text) {
  using namespace config_file;
  const auto lines = split_lines(text);
  std::string out;
  for (std::size_t i = 0; i < std::min(problems.size(), max_rendered); ++i) {
    const Problem& problem = problems[i];
    out += problem.file;
    if (problem.line > 0) out += fmt::format(":{}:{}", problem.line, problem.column);
    out += fmt::format(": {}: ", to_string(problem.severity));
    if (!problem.path.empty()) out += one_line(problem.path) + ": ";
    out += one_line(problem.message);
    if (!problem.help.empty()) out += "; " + one_line(problem.help);
    out += '\n';
    const auto line = static_cast<std::size_t>(problem.line);
    if (!problem.in_named_file && line >= 1 && line <= lines.size()) {
      out += excerpt(lines[line - 1], problem.column);
    }
  }
  if (problems.size() > max_rendered) {
    out += fmt::format("... and {} more\n", problems.size() - max_rendered);
  }
  return out;
}

std::string problems_json(const std::vector<Problem>& problems) {
  using config_file::Tree;
  Tree list = Tree::list();
  for (const Problem& problem : problems) {
    list.items.push_back(Tree::map(
        {{"file", Tree::text(problem.file)},
         {"line", Tree::raw(std::to_string(problem.line))},
         {"column", Tree::raw(std::to_string(problem.column))},
         {"path", Tree::text(problem.path)},
         {"message", Tree::text(problem.message)},
         {"help", Tree::text(problem.help)},
         {"severity", Tree::text(std::string{config_file::to_string(problem.severity)})}}));
  }
  return config_file::to_json(list);
}

}  // namespace evenkeel
