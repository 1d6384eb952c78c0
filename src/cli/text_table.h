// Columns of text, as people read them in a terminal.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace evenkeel {

/// Rows under a heading, each column as wide as its widest cell. What could move a terminal's
/// cursor is replaced: cells come from files and from servers.
class TextTable {
 public:
  /// A heading that begins with '>' is that of a column of numbers, flush right.
  explicit TextTable(std::vector<std::string_view> headings);

  void add(std::vector<std::string> row);
  /// A line each, without its end; the heading first.
  std::vector<std::string> lines() const;

 private:
  struct Column {
    std::size_t width;
    bool right;
  };
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

/// How many columns of a terminal `text` takes, one for each character of UTF-8.
std::size_t display_width(std::string_view text);
/// `text` up to that width.
std::string_view truncated(std::string_view text, std::size_t width);
/// `text` with control characters replaced.
std::string printable(std::string_view text);

}  // namespace evenkeel
