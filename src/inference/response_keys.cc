#include "inference/response_keys.h"

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace evenkeel {
namespace {

struct Named {
  std::string_view name;
  ResponseKey key = ResponseKey::none;
};

using enum ResponseKey;
constexpr Named known[] = {
    {"arguments", arguments},
    {"audio", audio},
    {"cache_creation_input_tokens", cache_creation_input_tokens},
    {"cache_n", cache_n},
    {"cache_read_input_tokens", cache_read_input_tokens},
    {"cached_tokens", cached_tokens},
    {"choices", choices},
    {"completion_tokens", completion_tokens},
    {"content", content},
    {"data", data},
    {"delta", delta},
    {"details", details},
    {"done_reason", done_reason},
    {"error", error},
    {"eval_count", eval_count},
    {"finish_reason", finish_reason},
    {"function", function},
    {"function_call", function},
    {"generated_tokens", generated_tokens},
    {"incomplete_details", incomplete_details},
    {"index", index},
    {"input_length", input_length},
    {"input_tokens", prompt_tokens},
    {"input_tokens_details", prompt_tokens_details},
    {"item_id", item_id},
    {"message", message},
    {"meta_info", meta_info},
    {"name", name},
    {"output_tokens", completion_tokens},
    {"outputs", outputs},
    {"partial_json", partial_json},
    {"predicted_n", predicted_n},
    {"progress", progress},
    {"prompt_eval_count", prompt_eval_count},
    {"prompt_n", prompt_n},
    {"prompt_progress", progress},
    {"prompt_tokens", prompt_tokens},
    {"prompt_tokens_details", prompt_tokens_details},
    {"reason", reason},
    {"reasoning", reasoning},
    {"reasoning_content", reasoning},
    {"refusal", refusal},
    {"response", response},
    {"status", status},
    {"stop_reason", stop_reason},
    {"stop_type", stop_type},
    {"text", text},
    {"text_output", text_output},
    {"thinking", thinking},
    {"timings", timings},
    {"token", token},
    {"tokens_evaluated", tokens_evaluated},
    {"tokens_predicted", tokens_predicted},
    {"tool_calls", tool_calls},
    {"total_tokens", total_tokens},
    {"transcript", transcript},
    {"type", type},
    {"usage", usage},
};

constexpr std::size_t min_size = 4;  // of a known name, in bytes

/// The first four bytes of `text`, the first one lowest.
constexpr std::uint32_t word_at(const char* text) {
  std::uint32_t word = 0;
  if (!std::is_constant_evaluated() && std::endian::native == std::endian::little) {
    std::memcpy(&word, text, sizeof word);
    return word;
  }
  for (unsigned i = 0; i < sizeof word; ++i) {
    word |= static_cast<std::uint32_t>(static_cast<unsigned char>(text[i])) << (8 * i);
  }
  return word;
}

/// A perfect hash of the known names: each has a place of its own.
struct NameTable {
  static constexpr int place_bits = 7;

  std::array<Named, 1 << place_bits> places{};

  /// Hashes the length, the first and the last four bytes. The factor was searched for: with it no
  /// two names share a place. REQUIRES: `min_size` bytes at least.
  static constexpr std::size_t place_of(std::string_view name) {
    const auto size = static_cast<std::uint32_t>(name.size());
    const std::uint32_t last = word_at(name.data() + size - sizeof(std::uint32_t));
    return (((word_at(name.data()) + size) ^ last << 1) * 0xca1b16fdu) >> (32 - place_bits);
  }
  consteval NameTable() {
    for (const Named& one : known) {
      Named& place = places[place_of(one.name)];
      if (!place.name.empty()) throw "two names share a place";
      place = one;
    }
  }
};
constexpr NameTable name_table;

/// REQUIRES: both have `size` bytes, `min_size` at least.
bool is_same(const char* a, const char* b, std::size_t size) {
  const auto same = [&]<class Word>(std::size_t at, Word) {
    Word left;
    Word right;
    std::memcpy(&left, a + at, sizeof left);
    std::memcpy(&right, b + at, sizeof right);
    return left == right;
  };
  if (size < 8) return same(0, std::uint32_t{}) && same(size - 4, std::uint32_t{});
  for (std::size_t at = 0; at + 8 < size; at += 8) {
    if (!same(at, std::uint64_t{})) return false;
  }
  return same(size - 8, std::uint64_t{});
}

}  // namespace

ResponseKey response_key_of(std::string_view name) {
  if (name.size() < min_size) return none;
  const Named& only = name_table.places[NameTable::place_of(name)];
  if (only.name.size() != name.size()) return none;
  return is_same(only.name.data(), name.data(), name.size()) ? only.key : none;
}

}  // namespace evenkeel
