#include "cli/text_table.h"

#include <algorithm>

namespace evenkeel {
namespace {

bool continues_character(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

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

std::string printable(std::string_view text) {
  std::string cleaned(text);
  for (std::size_t i = 0; i < cleaned.size(); ++i) {
    const auto byte = static_cast<unsigned char>(cleaned[i]);
    if (byte < 0x20 || byte == 0x7F) cleaned[i] = '?';
    // U+0080 to U+009F are controls, too.
    const bool second_set =
        byte == 0xC2 && i + 1 < cleaned.size() && static_cast<unsigned char>(cleaned[i + 1]) < 0xA0;
    if (second_set) cleaned[i] = cleaned[i + 1] = '?';
  }
  return cleaned;
}

TextTable::TextTable(std::vector<std::string_view> headings) {
  std::vector<std::string> row;
  for (const std::string_view heading : headings) {
    const bool right = heading.starts_with('>');
    row.emplace_back(heading.substr(right ? 1 : 0));
    columns_.push_back({0, right});
  }
  add(std::move(row));
}

void TextTable::add(std::vector<std::string> row) {
  row.resize(columns_.size());
  for (std::size_t i = 0; i < row.size(); ++i) {
    row[i] = printable(row[i]);
    columns_[i].width = std::max(columns_[i].width, display_width(row[i]));
  }
  rows_.push_back(std::move(row));
}

std::vector<std::string> TextTable::lines() const {
  std::vector<std::string> lines;
  for (const auto& row : rows_) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string padding(columns_[i].width - display_width(row[i]), ' ');
      if (i > 0) line += "  ";
      line += columns_[i].right ? padding + row[i] : row[i] + padding;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    lines.push_back(std::move(line));
  }
  return lines;
}

}  // namespace evenkeel
