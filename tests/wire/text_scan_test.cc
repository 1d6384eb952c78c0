#include "wire/text_scan.h"

#include <gtest/gtest.h>

#include <string>

#include "evenkeel/base/rng.h"

namespace evenkeel {
namespace {

/// The end of the run as its definition has it, byte by byte.
std::size_t run_length(std::string_view text, CharClass wanted) {
  std::size_t length = 0;
  while (length < text.size() && is(text[length], wanted)) ++length;
  return length;
}

template <CharClass wanted>
std::size_t scanned_length(const std::string& memory, std::size_t begin, std::size_t end) {
  const char* const from = memory.data() + begin;
  const char* const found =
      find_end_of<wanted>(from, memory.data() + end, memory.data() + memory.size());
  return static_cast<std::size_t>(found - from);
}

/// Compares the scans of all parts of `memory`, which is as long as what may be read.
template <CharClass wanted>
void expect_scans_as_defined(const std::string& memory) {
  for (std::size_t begin = 0; begin <= memory.size(); ++begin) {
    for (std::size_t end = begin; end <= memory.size(); ++end) {
      const std::string_view text(memory.data() + begin, end - begin);
      ASSERT_EQ(scanned_length<wanted>(memory, begin, end), run_length(text, wanted))
          << testing::PrintToString(memory) << " from " << begin << " to " << end;
    }
  }
}

template <CharClass wanted>
void expect_every_byte_is_found(char member) {
  for (unsigned c = 0; c < 256; ++c) {
    for (const std::size_t at : {0u, 7u, 15u, 16u, 20u, 31u, 32u}) {
      std::string memory(35, member);
      memory[at] = static_cast<char>(c);
      expect_scans_as_defined<wanted>(memory);
    }
  }
}

TEST(TextScan, FindsTheEndOfATokenAtEveryByte) { expect_every_byte_is_found<token_char>('a'); }
TEST(TextScan, FindsTheEndOfAValueAtEveryByte) { expect_every_byte_is_found<value_char>(' '); }
TEST(TextScan, FindsTheEndOfATargetAtEveryByte) { expect_every_byte_is_found<target_char>('?'); }

TEST(TextScan, FindsTheEndInRandomBytes) {
  Rng rng(11);
  for (int round = 0; round < 300; ++round) {
    std::string memory(50, '\0');
    const bool mostly_letters = round % 2 == 0;
    for (char& c : memory) {
      const bool letter = mostly_letters && rng.below(8) != 0;
      c = static_cast<char>(letter ? 'a' + rng.below(26) : rng.below(256));
    }
    expect_scans_as_defined<token_char>(memory);
    expect_scans_as_defined<value_char>(memory);
    expect_scans_as_defined<target_char>(memory);
  }
}

}  // namespace
}  // namespace evenkeel
