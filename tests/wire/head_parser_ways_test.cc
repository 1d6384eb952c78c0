// The head parser takes usual lines in one pass and reads the others the strict way: the results
// must be the same, whatever the head.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "evenkeel/base/rng.h"
#include "wire/parsed_head.h"

namespace evenkeel {
namespace {

using Kind = HeadParser::Kind;

/// Every input that a fuzzer of HTTP/1 starts from; some hold several messages, or none.
std::vector<std::string> read_corpus() {
  const std::filesystem::path corpus(EVENKEEL_SOURCE_DIR "/tests/fuzz/corpus");
  std::vector<std::string> inputs;
  for (const auto& folder : std::filesystem::directory_iterator(corpus)) {
    if (!folder.path().filename().string().starts_with("http1_")) continue;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      std::ifstream file(entry.path(), std::ios::binary);
      inputs.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
    }
  }
  std::sort(inputs.begin(), inputs.end());  // folders are listed in no order
  return inputs;
}

/// Lines of many forms: as almost all are, and not quite.
std::string random_head(Rng& rng) {
  constexpr std::string_view starts[] = {
      "GET / HTTP/1.1",     "POST /v1/chat/completions?stream=1 HTTP/1.1",
      "GET /a b HTTP/1.1",  "GET  / HTTP/1.1",
      "PRI * HTTP/1.1",     "GET / HTTP/1.0",
      "GET /\x7f HTTP/1.1", "GET / HTTP/1.1 ",
      "HTTP/1.1 200 OK",    "ABCDEFGHIJKLMNOPQRSTUVWXYZABCDEF / HTTP/1.1",
      "GET /a\"b HTTP/1.1", "ABCDEFGHIJKLMNOPQRSTUVWXYZABCDEFG / HTTP/1.1"};
  constexpr std::string_view names[] = {
      "Host", "content-length",   "X_y",    "a-name-of-more-than-sixteen", "Ho st", "X ",
      "",     "x-sixteen-bytes-", " folded"};
  constexpr std::string_view values[] = {"",     "a",         " b",     "c ",   "\td\t", "e f",
                                         "\x01", "g\x80\xff", "\x7f h", "i\rj", "k\nl"};
  constexpr std::uint32_t usual_names = 4;
  std::string head;
  if (rng.below(8) == 0) head = "\r\n";
  head += starts[rng.below(std::size(starts))];
  head += "\r\n";
  for (auto lines = rng.below(6); lines > 0; --lines) {
    const bool usual = rng.below(4) != 0;
    head += names[rng.below(usual ? usual_names : std::size(names))];
    head += rng.below(16) == 0 ? "" : ":";
    head += std::string(rng.below(3), ' ');
    head += std::string(rng.below(20), 'v');
    if (rng.below(3) == 0) head += values[rng.below(std::size(values))];
    head += rng.below(20) == 0 ? "\n" : "\r\n";
  }
  return head + "\r\n";
}

/// The same with a few bytes changed, inserted or removed.
std::string mutated(std::string bytes, Rng& rng) {
  constexpr std::string_view special("\r\n: \t\0\x7f\x80/_%\"", 13);
  for (auto changes = 1 + rng.below(3); changes > 0 && !bytes.empty(); --changes) {
    const std::size_t at = rng.below(static_cast<std::uint32_t>(bytes.size()));
    const char c = rng.below(2) == 0
                       ? special[rng.below(static_cast<std::uint32_t>(special.size()))]
                       : static_cast<char>(rng.below(256));
    switch (rng.below(3)) {
      case 0: bytes[at] = c; break;
      case 1: bytes.insert(at, 1, c); break;
      default: bytes.erase(at, 1); break;
    }
  }
  return bytes;
}

/// Generous ones, or such that one of them ends a head of this size anywhere. (Of two limits that
/// the same line exceeds, the one that is named depends on how much of the line has arrived.)
HeadLimits random_limits(std::size_t size, Rng& rng) {
  HeadLimits limits = generous_limits;
  switch (rng.below(6)) {
    case 0: limits.bytes = 1 + rng.below(static_cast<std::uint32_t>(size + 2)); break;
    case 1: limits.fields = rng.below(6); break;
    case 2: limits.line = rng.below(40); break;
    default: break;
  }
  return limits;
}

/// Parses in one piece and cut in two at every position, in the usual way and in the strict one.
void expect_the_same_both_ways(Kind kind, std::string_view bytes, const HeadLimits& limits) {
  const std::vector<std::size_t> strict_cuts = cuts_for_strict_way(bytes);
  const auto at_end_of_block = static_cast<std::uint32_t>(Block::small - bytes.size());
  const Parsed strict = parse_in_pieces(kind, bytes, strict_cuts, limits);
  ASSERT_EQ(parse_in_pieces(kind, bytes, {}, limits), strict) << testing::PrintToString(bytes);
  ASSERT_EQ(parse_in_pieces(kind, bytes, {}, limits, at_end_of_block), strict)
      << testing::PrintToString(bytes);
  for (std::size_t cut = 1; cut < bytes.size(); ++cut) {
    std::vector<std::size_t> cuts = strict_cuts;
    cuts.insert(std::upper_bound(cuts.begin(), cuts.end(), cut), cut);
    ASSERT_EQ(parse_in_pieces(kind, bytes, {cut}, limits),
              parse_in_pieces(kind, bytes, cuts, limits))
        << testing::PrintToString(bytes) << " cut at " << cut;
  }
}

void expect_the_same_for_both_kinds(std::string_view bytes, const HeadLimits& limits) {
  expect_the_same_both_ways(Kind::request, bytes, limits);
  expect_the_same_both_ways(Kind::response, bytes, limits);
}

TEST(HeadParserWays, AgreeOnEveryInputOfTheFuzzers) {
  const std::vector<std::string> inputs = read_corpus();
  ASSERT_GT(inputs.size(), 50u);
  Rng rng(1);
  for (const std::string& input : inputs) {
    expect_the_same_for_both_kinds(input, generous_limits);
    for (int i = 0; i < 8; ++i) {
      const std::string other = mutated(input, rng);
      expect_the_same_for_both_kinds(other, random_limits(other.size(), rng));
    }
  }
}

TEST(HeadParserWays, AgreeAtTheLimitOfTheRequestLine) {
  HeadLimits limits = generous_limits;
  limits.line = 20;
  for (const std::string_view before : {"", "\r\n"}) {
    for (std::size_t method = 30; method <= 33; ++method) {
      for (std::size_t target = 18; target <= 21; ++target) {
        const std::string head = std::string(before) + std::string(method, 'M') + " " +
                                 std::string(target, '/') + " HTTP/1.1\r\n\r\n";
        expect_the_same_both_ways(Kind::request, head, limits);
      }
    }
  }
}

TEST(HeadParserWays, AgreeOnRandomHeads) {
  Rng rng(2);
  for (int i = 0; i < 1000; ++i) {
    const std::string head = random_head(rng);
    expect_the_same_for_both_kinds(head, random_limits(head.size(), rng));
    const std::string other = mutated(head, rng);
    expect_the_same_for_both_kinds(other, random_limits(other.size(), rng));
  }
}

}  // namespace
}  // namespace evenkeel
