#include "evenkeel/base/text_table.h"

#include <algorithm>
#include <utility>

#include "evenkeel/base/utf8.h"

namespace evenkeel {
namespace {

constexpr std::string_view gap = "  ";  // between columns

bool continues_character(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

/// `text`, with an ellipsis at its end where it is too wide.
std::string shortened(const std::string& text, std::size_t width) {
  if (display_width(text) <= width) return text;
  return std::string(truncated(text, width - 1)) + "\u2026";
}

}  // namespace

std::size_t display_width(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return !continues_character(c); }));
}

std::string_view truncated(std::string_view text, std::size_t width) {
  std::size_t at = 0;
  for (; at < text.size(); ++at) {
    if (continues_character(text[at])) continue;
    if (width-- == 0) break;
  }
  return text.substr(0, at);
}

std::string printable(std::string_view text) { return printable_utf8(text); }

TextTable::TextTable(std::vector<TableColumn> columns)
    : columns_(std::move(columns)), widths_(columns_.size()) {
  std::vector<std::string> headings;
  for (const TableColumn& column : columns_) headings.emplace_back(column.heading);
  add(std::move(headings));
}

void TextTable::add(std::vector<std::string> row) {
  row.resize(columns_.size());
  for (std::size_t i = 0; i < row.size(); ++i) {
    row[i] = printable(row[i]);
    widths_[i] = std::max(widths_[i], display_width(row[i]));
  }
  rows_.push_back(std::move(row));
}

TextTable::Layout TextTable::layout(std::optional<std::size_t> width) const {
  Layout layout;
  for (std::size_t i = 0; i < columns_.size(); ++i) layout.columns.push_back(i);
  const auto total = [&] {
    std::size_t sum = 0;
    for (const std::size_t i : layout.columns) sum += widths_[i] + gap.size();
    return sum - gap.size();
  };
  while (width && total() > *width) {
    const auto least = std::ranges::max_element(
        layout.columns, {}, [&](std::size_t i) { return columns_[i].expendable; });
    if (columns_[*least].expendable == 0) break;
    layout.columns.erase(least);
  }
  for (const std::size_t i : layout.columns) layout.widths.push_back(widths_[i]);
  if (width && total() > *width) {
    layout.widths.front() = std::min(layout.widths.front(), std::max<std::size_t>(*width / 2, 1));
  }
  return layout;
}

std::vector<std::string> TextTable::lines(std::optional<std::size_t> width) const {
  const Layout shown = layout(width);
  std::vector<std::string> lines;
  for (const auto& row : rows_) {
    std::string line;
    for (std::size_t i = 0; i < shown.columns.size(); ++i) {
      const std::size_t column = shown.columns[i];
      const std::string cell = shortened(row[column], shown.widths[i]);
      const std::string padding(shown.widths[i] - display_width(cell), ' ');
      if (i > 0) line += gap;
      line += columns_[column].align == TableColumn::Align::right ? padding + cell : cell + padding;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    lines.push_back(std::move(line));
  }
  return lines;
}

}  // namespace evenkeel
