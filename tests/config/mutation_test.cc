#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include "config/test_environment.h"

namespace evenkeel {
namespace {

std::vector<std::string> sample_texts() {
  std::vector<std::string> texts;
  for (const auto& entry : std::filesystem::directory_iterator{EVENKEEL_SOURCE_DIR "/config"}) {
    if (entry.path().extension() != ".yaml") continue;
    std::ostringstream text;
    text << std::ifstream{entry.path()}.rdbuf();
    texts.push_back(text.str());
  }
  return texts;
}

// Breaks a text as people and editors do, and as attackers would.
class Mutator {
 public:
  explicit Mutator(unsigned seed) : random_(seed) {}

  std::string mutate(std::string text) {
    const std::size_t changes = 1 + below(4);
    for (std::size_t i = 0; i < changes && !text.empty(); ++i) change(text);
    return text;
  }

 private:
  std::size_t below(std::size_t limit) { return random_() % limit; }

  void change(std::string& text) {
    constexpr std::array<const char*, 34> pieces = {
        "&a ",  "*a", "<<: *a", "{",  "}",  "[",  "]",  ": ", "- ",   "? ",    "!!str ", "\t",
        "\"",   "'",  "|",      ">",  "%",  "@",  "`",  "#",  " #",   "---\n", "...\n",  "${",
        "${A}", "$$", "~",      "0x", "-1", "\n", "\r", ",",  "\xc3", "\x04"};
    const std::size_t at = below(text.size());
    const std::size_t length = std::min(below(12) + 1, text.size() - at);
    switch (below(6)) {
      case 0: text[at] = static_cast<char>(below(256)); break;
      case 1: text.erase(at, length); break;
      case 2: text.insert(at, pieces[below(pieces.size())]); break;
      case 3: text.insert(below(text.size()), text.substr(at, length)); break;
      case 4: text.resize(at); break;
      default: swap_lines(text, at, below(text.size()));
    }
  }

  static void swap_lines(std::string& text, std::size_t a, std::size_t b) {
    const std::size_t start =
        text.rfind('\n', a) == std::string::npos ? 0 : text.rfind('\n', a) + 1;
    const std::size_t end = std::min(text.find('\n', start), text.size() - 1) + 1;
    const std::string line = text.substr(start, end - start);
    text.erase(start, end - start);
    const std::size_t to = text.find('\n', std::min(b, text.size()));
    text.insert(to == std::string::npos ? text.size() : to + 1, line);
  }

  std::mt19937 random_;
};

// What holds for any text: problems have a place, and a right file prints to an equal one.
void expect_sound(const std::string& text) {
  const LoadResult result = read(text);
  const auto lines = 1 + std::count(text.begin(), text.end(), '\n');
  for (const Problem& problem : result.problems) {
    ASSERT_GE(problem.line, 1) << text;
    ASSERT_LE(problem.line, lines) << text;
    ASSERT_GE(problem.column, 1) << text;
    ASSERT_FALSE(problem.message.empty()) << text;
  }
  render_problems(result.problems, result.text);
  if (!result.ok()) return;

  const LoadResult again = read(print_config(result.config, false));
  ASSERT_TRUE(again.ok()) << text << "\n" << render_problems(again.problems, again.text);
  ASSERT_EQ(again.config, result.config) << text;
}

TEST(Mutations, NeverCrashTheReader) {
  constexpr unsigned rounds = 1500;
  const auto texts = sample_texts();
  ASSERT_FALSE(texts.empty());

  for (unsigned seed = 0; seed < rounds; ++seed) {
    SCOPED_TRACE(seed);
    expect_sound(Mutator{seed}.mutate(texts[seed % texts.size()]));
    if (HasFatalFailure()) return;
  }
}

TEST(Mutations, OfEveryPrefixNeverCrashTheReader) {
  for (const auto& text : sample_texts()) {
    for (std::size_t length = 0; length < text.size(); length += 3) {
      expect_sound(text.substr(0, length));
      if (HasFatalFailure()) return;
    }
  }
}

}  // namespace
}  // namespace evenkeel
