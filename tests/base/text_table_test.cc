#include "evenkeel/base/text_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace evenkeel {
namespace {

using testing::ElementsAre;

TEST(TextTable, ReplacesControlCharacters) {
  TextTable table({{"NAME"}, {"N", TableColumn::Align::right}});
  table.add({"a\x1b[2Jb\n\r\t", "1"});
  table.add(
      {"c\xC2\x9B"
       "d",
       "22"});

  EXPECT_THAT(table.lines(), ElementsAre("NAME        N", "a?[2Jb???   1", "c?d        22"));
}

TEST(TextTable, DropsTheMostExpendableColumnsUntilItFits) {
  TextTable table(
      {{"NAME"}, {"A", TableColumn::Align::left, 1}, {"B", TableColumn::Align::left, 2}, {"WHY"}});
  table.add({"one", "aaaa", "bbbb", "reason"});

  EXPECT_THAT(table.lines(24), ElementsAre("NAME  A     B     WHY", "one   aaaa  bbbb  reason"));
  EXPECT_THAT(table.lines(23), ElementsAre("NAME  A     WHY", "one   aaaa  reason"));
  EXPECT_THAT(table.lines(17), ElementsAre("NAME  WHY", "one   reason"));
}

TEST(TextTable, ShortensItsFirstColumnLast) {
  TextTable table({{"NAME"}, {"STATE"}, {"WHY"}});
  table.add({"a-very-long-name-indeed", "up", "fine"});

  EXPECT_THAT(table.lines(20),
              ElementsAre("NAME        STATE  WHY", "a-very-lo\u2026  up     fine"));
}

}  // namespace
}  // namespace evenkeel
