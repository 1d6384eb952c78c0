// Columns of text for a terminal.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace evenkeel {

struct TableColumn {
  enum class Align { left, right };

  std::string_view heading;
  Align align = Align::left;
  int expendable =
      0;  ///< in a narrow terminal the column with the largest goes first; 0: none goes
};

/// Rows under a heading, each column as wide as its widest cell. Control characters in cells are
/// replaced: cells come from files and servers, and could move a terminal's cursor.
class TextTable {
 public:
  explicit TextTable(std::vector<TableColumn> columns);

  void add(std::vector<std::string> row);

  /// One line each, without line ends; the heading first. With a `width`, drops expendable columns
  /// until the lines fit, then shortens the first column; the last one may still stick out.
  std::vector<std::string> lines(std::optional<std::size_t> width = std::nullopt) const;

 private:
  struct Layout {
    std::vector<std::size_t> columns;  // that are shown
    std::vector<std::size_t> widths;   // of these
  };
  Layout layout(std::optional<std::size_t> width) const;

  std::vector<TableColumn> columns_;
  std::vector<std::size_t> widths_;
  std::vector<std::vector<std::string>> rows_;
};

/// The columns of a terminal that `text` takes: one for each character of UTF-8.
std::size_t display_width(std::string_view text);
/// The beginning of `text`, up to that width.
std::string_view truncated(std::string_view text, std::size_t width);
/// `text` with control characters replaced.
std::string printable(std::string_view text);

}  // namespace evenkeel
