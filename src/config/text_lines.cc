#include "config/text_lines.h"

#include <algorithm>

namespace evenkeel::config_file {

TextLines::TextLines(std::string_view text) : lines_(split_lines(text)) {}

Mark TextLines::mark_of(const YAML::Mark& mark) const {
  if (mark.line < 0) return {};
  const std::string_view line = at(mark.line + 1);
  const auto column = static_cast<std::size_t>(mark.column);
  const std::size_t end = std::min(column, line.size());
  if (mark.line != counted_.line || end < counted_.end) counted_ = {.line = mark.line};
  const std::string_view more = line.substr(counted_.end, end - counted_.end);
  counted_.end = end;
  counted_.characters += std::count_if(more.begin(), more.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  });
  const auto past_the_end = column - end;
  return {mark.line + 1,
          static_cast<int>(counted_.characters) + static_cast<int>(past_the_end) + 1};
}

Mark TextLines::mark_of(std::string_view text, std::size_t offset) const {
  const std::string_view before = text.substr(0, offset);
  YAML::Mark mark;
  mark.line = static_cast<int>(std::count(before.begin(), before.end(), '\n'));
  mark.column = static_cast<int>(offset - (before.rfind('\n') + 1));
  return mark_of(mark);
}

std::string_view TextLines::at(int number) const {
  const auto index = static_cast<std::size_t>(number - 1);
  return number >= 1 && index < lines_.size() ? lines_[index] : std::string_view{};
}

Mark TextLines::last() const { return {std::max(static_cast<int>(lines_.size()), 1), 1}; }

}  // namespace evenkeel::config_file
