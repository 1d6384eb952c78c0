#include "sim/tokenizer.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "evenkeel/base/ascii.h"
#include "evenkeel/base/hash.h"
#include "evenkeel/base/rng.h"

namespace evenkeel {
namespace {

constexpr TokenId special = TokenId{1} << 63;
constexpr TokenId mark_begin = special | 1;
constexpr TokenId mark_start = special | 2;
constexpr TokenId mark_content = special | 3;
constexpr TokenId mark_end = special | 4;

constexpr std::array<std::string_view, 64> words = {
    "light",  "river",  "stone",  "cloud", "field", "wind",  "harbor", "quiet", "road",  "green",
    "bright", "north",  "south",  "moon",  "sail",  "keel",  "water",  "tide",  "coast", "watch",
    "steady", "load",   "even",   "queue", "token", "batch", "step",   "cache", "block", "prefix",
    "model",  "weight", "answer", "small", "large", "first", "second", "third", "under", "over",
    "near",   "far",    "warm",   "cold",  "deep",  "high",  "clear",  "slow",  "fast",  "open",
    "close",  "round",  "line",   "point", "mark",  "note",  "page",   "word",  "voice", "time",
    "place",  "table",  "paper",  "garden"};

enum class Kind : std::uint8_t { letter, digit, space, other };

constexpr std::array<Kind, 256> kinds = [] {
  std::array<Kind, 256> table{};
  for (std::size_t c = 0; c < table.size(); ++c) {
    const bool letter = is_letter(static_cast<char>(c)) || c >= 0x80;
    const bool digit = is_digit(static_cast<char>(c));
    const bool space = c == ' ' || c == '\n' || c == '\t' || c == '\r';
    table[c] = letter ? Kind::letter : digit ? Kind::digit : space ? Kind::space : Kind::other;
  }
  return table;
}();

constexpr std::size_t max_run_length(Kind kind) {
  switch (kind) {
    case Kind::letter: return 6;
    case Kind::digit: return 3;
    case Kind::space: return 6;
    case Kind::other: return 1;
  }
  return 1;
}

TokenId pack(const char* bytes, std::size_t size) {
  TokenId id = 0;
  std::memcpy(&id, bytes, size);
  return id;
}

Kind kind_of(char c) { return kinds[static_cast<unsigned char>(c)]; }

}  // namespace

void append_tokens(std::string_view text, std::vector<TokenId>& tokens) {
  tokens.reserve(tokens.size() + text.size() / 4 + 1);
  std::size_t at = 0;
  while (at < text.size()) {
    std::size_t end = at;
    const bool joins =
        text[at] == ' ' && at + 1 < text.size() && kind_of(text[at + 1]) != Kind::space;
    if (joins) ++end;
    const Kind kind = kind_of(text[end]);
    const std::size_t most = std::min(text.size(), end + max_run_length(kind));
    while (end < most && kind_of(text[end]) == kind) {
      // The last space of a run belongs to the word after it.
      const bool before_word = kind == Kind::space && end > at && text[end] == ' ' &&
                               end + 1 < text.size() && kind_of(text[end + 1]) != Kind::space;
      if (before_word) break;
      ++end;
    }
    tokens.push_back(pack(text.data() + at, end - at));
    at = end;
  }
}

std::vector<TokenId> tokenize_prompt(const Prompt& prompt, bool chat) {
  std::vector<TokenId> tokens{mark_begin};
  for (const PromptPart& part : prompt) {
    if (chat) {
      tokens.push_back(mark_start);
      tokens.push_back(special | hash_of(part.role));
      tokens.push_back(mark_content);
    }
    append_tokens(part.text, tokens);
    for (const std::uint64_t id : part.token_ids) tokens.push_back(special | (id << 8));
    if (chat) tokens.push_back(mark_end);
  }
  if (chat) {
    tokens.push_back(mark_start);
    tokens.push_back(special | hash_of("assistant"));
    tokens.push_back(mark_content);
  }
  return tokens;
}

std::string_view generated_word(std::uint64_t seed, std::uint32_t index) {
  return words[mix(seed + index) % words.size()];
}

std::vector<std::uint64_t> hash_blocks(std::span<const TokenId> tokens, std::uint32_t block_tokens,
                                       std::string_view salt) {
  std::vector<std::uint64_t> hashes;
  hashes.reserve(tokens.size() / block_tokens);
  std::uint64_t chain = hash_of(salt);
  for (std::size_t at = 0; at + block_tokens <= tokens.size(); at += block_tokens) {
    for (const TokenId token : tokens.subspan(at, block_tokens)) chain = mix(chain ^ token) + chain;
    hashes.push_back(chain);
  }
  return hashes;
}

}  // namespace evenkeel
