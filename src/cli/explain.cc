#include "cli/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "evenkeel/base/exit_codes.h"
#include "evenkeel/base/fault_table.h"
#include "evenkeel/base/text_table.h"
#include "evenkeel/config/spelling.h"
#include "evenkeel/http/status.h"

namespace evenkeel {
namespace {

constexpr std::string_view introduction = R"(# Reasons

Why a request failed, in one word. It stands in `x-evenkeel-reason` of the answer, in `reason` of
the [access log](observability.md#access-log), and in `evenkeel_errors_total{reason}`. An answer
without that field is the backend's own, or that of a route with `respond`. `evenkeel explain
queue_full` prints a row of this page; `evenkeel explain --page` generates the page.

- **Status** is what a client gets when it has got nothing yet. A response that has begun
  [breaks off](reliability.md#streams-that-break) instead. 499 stands only in the log. gRPC calls
  end with [a status of gRPC](routing.md#how-a-call-ends).
- **Side** is the label `side`: what to count for evenkeel, and what clients cause.
- Attempts have an `outcome` in the log: `answered`, or one of these words.
- Why a *backend* gets no requests is another list: [states](reliability.md#states).

| reason | status | side | meaning | likely cause | cure |
|---|---|---|---|---|---|
)";

/// Markdown as plain text. What its links lead to is added to `links`.
std::string plain(std::string_view markdown, std::vector<std::string>* links = nullptr) {
  std::string text;
  while (!markdown.empty()) {
    const std::size_t open = markdown.find('[');
    const std::size_t middle = markdown.find("](", open);
    const std::size_t close = markdown.find(')', middle);
    if (close == std::string_view::npos) break;
    text += markdown.substr(0, open);
    text += markdown.substr(open + 1, middle - open - 1);
    if (links)
      links->push_back(fmt::format("docs/{}", markdown.substr(middle + 2, close - middle - 2)));
    markdown.remove_prefix(close + 1);
  }
  text += markdown;
  std::erase(text, '`');
  return text;
}

/// A label, and beside it the text in lines of at most `width` columns.
std::string paragraph(const std::string& label, std::string_view text, std::size_t width) {
  std::string out = label;
  std::size_t column = label.size();
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view word = rest.substr(0, rest.find(' '));
    rest.remove_prefix(std::min(rest.size(), word.size() + 1));
    if (column > label.size() && column + 1 + word.size() > width) {
      out += '\n' + std::string(label.size(), ' ');
      column = label.size();
    } else if (column > label.size()) {
      out += ' ';
      ++column;
    }
    out += word;
    column += word.size();
  }
  return out + '\n';
}

std::string entry_text(const FaultEntry& entry, std::size_t width) {
  std::vector<std::string> links;
  std::string text =
      fmt::format("{} (status {}, side {})\n", entry.word, status_of(entry.fault), entry.side);
  text += paragraph("Meaning: ", plain(entry.meaning, &links), width);
  text += paragraph("Cause:   ", plain(entry.cause, &links), width);
  text += paragraph("Cure:    ", plain(entry.cure, &links), width);
  for (const std::string& link : links) text += fmt::format("See:     {}\n", link);
  return text;
}

std::string list_text(std::size_t width) {
  std::size_t widest = 0;
  for (const FaultEntry& entry : fault_table()) {
    widest = std::max(widest, std::string_view(entry.word).size());
  }
  std::string text;
  for (const FaultEntry& entry : fault_table()) {
    text += paragraph(fmt::format("{:<{}}  ", entry.word, widest), plain(entry.meaning), width);
  }
  return text;
}

CommandOutput unknown_reason(std::string_view word) {
  std::vector<std::string> words;
  for (const FaultEntry& entry : fault_table()) words.emplace_back(entry.word);
  const auto meant = nearest_word(word, words);
  const bool is_request = std::ranges::count(word, '-') > 1;  // as in a UUID
  std::string hint = meant ? fmt::format("; did you mean '{}'?", *meant) : "";
  if (is_request) hint = fmt::format("; for a request: evenkeel ctl explain {}", printable(word));
  return {exit_usage,
          {},
          fmt::format("evenkeel explain: no reason is called '{}'{}\nReasons: {}\n",
                      printable(word), hint, fmt::join(words, ", "))};
}

std::string cell(std::string_view markdown) {
  std::string text;
  for (const char c : markdown) text += c == '|' ? "\\|" : std::string(1, c);
  return text;
}

}  // namespace

CommandOutput explain_command(std::string_view word, std::size_t width) {
  if (word.empty()) return {exit_done, list_text(width), {}};
  for (const FaultEntry& entry : fault_table()) {
    if (word == entry.word) return {exit_done, entry_text(entry, width), {}};
  }
  return unknown_reason(word);
}

std::string reasons_page() {
  std::string page(introduction);
  for (const FaultEntry& entry : fault_table()) {
    page += fmt::format("| `{}` | {} | {} | {} | {} | {} |\n", entry.word, status_of(entry.fault),
                        entry.side, cell(entry.meaning), cell(entry.cause), cell(entry.cure));
  }
  return page;
}

}  // namespace evenkeel
