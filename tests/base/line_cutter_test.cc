#include "evenkeel/base/line_cutter.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace evenkeel {
namespace {

/// The lines of a stream that comes in two pieces; what follows the last end of a line is in
/// brackets.
std::vector<std::string> lines_of(std::string_view stream, std::size_t cut) {
  LineCutter cutter;
  std::vector<std::string> lines;
  std::string line;
  for (std::string_view piece : {stream.substr(0, cut), stream.substr(cut)}) {
    while (!piece.empty()) {
      const auto [text, whole] = cutter.cut(piece);
      line += text;
      if (!whole) break;
      lines.push_back(line);
      line.clear();
    }
  }
  if (!line.empty()) lines.push_back("[" + line + "]");
  return lines;
}

TEST(LineCutter, KnowsEveryEndOfALineHoweverItIsCut) {
  for (const std::string_view stream :
       {"a\n\nbc\nd", "a\r\n\r\nbc\r\nd", "a\r\rbc\rd", "a\r\n\rbc\nd", "a\n\r\nbc\rd"}) {
    for (std::size_t cut = 0; cut <= stream.size(); ++cut) {
      EXPECT_EQ(lines_of(stream, cut), (std::vector<std::string>{"a", "", "bc", "[d]"}))
          << stream << " cut at " << cut;
    }
  }
}

}  // namespace
}  // namespace evenkeel
