#include "evenkeel/json/text.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <string>

namespace evenkeel::json {
namespace {

// Longer than what is looked at in one step.
constexpr std::size_t max_length = 200;

TEST(FindSpecial, FindsEachSpecialByteAtEachPlace) {
  for (const char special : {'"', '\\', '\0', '\n', '\x1f'}) {
    for (std::size_t at = 0; at < max_length; ++at) {
      std::string text(max_length, 'x');
      text[at] = special;
      bool non_ascii = false;
      const char* const end = text.data() + text.size();
      EXPECT_EQ(find_special(text.data(), end, non_ascii), text.data() + at);
      EXPECT_FALSE(non_ascii);
      // It is not looked for behind the end.
      EXPECT_EQ(find_special(text.data(), text.data() + at, non_ascii), text.data() + at);
    }
  }
}

TEST(FindSpecial, PassesOverAllOtherBytes) {
  for (int byte = 0x20; byte < 0x100; ++byte) {
    const char plain = static_cast<char>(byte);
    if (plain == '"' || plain == '\\') continue;
    const std::string text(max_length, plain);
    const char* const end = text.data() + text.size();
    bool non_ascii = false;
    EXPECT_EQ(find_special(text.data(), end, non_ascii), end);
    EXPECT_EQ(non_ascii, byte >= 0x80) << byte;
  }
}

TEST(FindSpecial, NotesNonAsciiBytesBeforeTheSpecialOne) {
  for (std::size_t at = 0; at + 1 < max_length; ++at) {
    std::string text(max_length, 'x');
    text[at] = '\xc3';
    text.back() = '"';
    bool non_ascii = false;
    const char* const end = text.data() + text.size();
    EXPECT_EQ(find_special(text.data(), end, non_ascii), end - 1);
    EXPECT_TRUE(non_ascii) << at;
  }
}

TEST(DecodeString, UndoesEscapesBetweenPlainText) {
  EXPECT_EQ(decode_string("", 10), "");
  EXPECT_EQ(decode_string("plain", 10), "plain");
  EXPECT_EQ(decode_string(R"(a\nb\u00e9c)", 10), "a\nb\u00e9c");
  EXPECT_EQ(decode_string(R"(\ud83d\ude00)", 10), "\U0001f600");
}

TEST(DecodeString, CutsBetweenTwoCharacters) {
  EXPECT_EQ(decode_string("abcdef", 4), "abcd");
  EXPECT_EQ(decode_string("abc\u00e9f", 4), "abc");
  EXPECT_EQ(decode_string("abc\u00e9f", 5), "abc\u00e9");
  EXPECT_EQ(decode_string(R"(abc\u00e9f)", 4), "abc");
  EXPECT_EQ(decode_string(R"(ab\ncd)", 4), "ab\nc");
  // The end is missing.
  EXPECT_EQ(decode_string("ab\xc3", 10), "ab");
  EXPECT_EQ(decode_string("ab\\", 10), "ab");
  EXPECT_EQ(decode_string(R"(ab\u00)", 10), "ab");
}

}  // namespace
}  // namespace evenkeel::json
