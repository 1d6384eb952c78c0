#include "inference/response_keys.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace evenkeel {
namespace {

struct Named {
  std::string_view name;
  ResponseKey key;
};

// By the length of the name: most keys that do not matter are told from these by it alone.
using enum ResponseKey;
constexpr Named of_4[] = {{"text", text}, {"name", name}, {"type", type}};
constexpr Named of_5[] = {{"delta", delta}, {"index", index}, {"usage", usage}, {"token", token}};
constexpr Named of_6[] = {{"status", status}, {"reason", reason}};
constexpr Named of_7[] = {{"content", content}, {"choices", choices}, {"message", message},
                          {"details", details}, {"timings", timings}, {"item_id", item_id},
                          {"outputs", outputs}, {"refusal", refusal}, {"cache_n", cache_n}};
constexpr Named of_8[] = {
    {"function", function}, {"response", response}, {"thinking", thinking}, {"prompt_n", prompt_n}};
constexpr Named of_9[] = {{"meta_info", meta_info},
                          {"arguments", arguments},
                          {"reasoning", reasoning},
                          {"stop_type", stop_type}};
constexpr Named of_10[] = {{"tool_calls", tool_calls}, {"eval_count", eval_count}};
constexpr Named of_11[] = {{"text_output", text_output},
                           {"stop_reason", stop_reason},
                           {"done_reason", done_reason},
                           {"predicted_n", predicted_n}};
constexpr Named of_12[] = {{"total_tokens", total_tokens},
                           {"input_tokens", prompt_tokens},
                           {"input_length", input_length},
                           {"partial_json", partial_json}};
constexpr Named of_13[] = {{"finish_reason", finish_reason},
                           {"prompt_tokens", prompt_tokens},
                           {"output_tokens", completion_tokens},
                           {"cached_tokens", cached_tokens},
                           {"function_call", function}};
constexpr Named of_16[] = {{"tokens_evaluated", tokens_evaluated},
                           {"tokens_predicted", tokens_predicted},
                           {"generated_tokens", generated_tokens}};
constexpr Named of_17[] = {{"completion_tokens", completion_tokens},
                           {"prompt_eval_count", prompt_eval_count},
                           {"reasoning_content", reasoning}};
constexpr Named of_18[] = {{"incomplete_details", incomplete_details}};
constexpr Named of_20[] = {{"input_tokens_details", prompt_tokens_details}};
constexpr Named of_21[] = {{"prompt_tokens_details", prompt_tokens_details}};
constexpr Named of_23[] = {{"cache_read_input_tokens", cache_read_input_tokens}};
constexpr Named of_27[] = {{"cache_creation_input_tokens", cache_creation_input_tokens}};

std::span<const Named> of_length(std::size_t length) {
  switch (length) {
    case 4: return of_4;
    case 5: return of_5;
    case 6: return of_6;
    case 7: return of_7;
    case 8: return of_8;
    case 9: return of_9;
    case 10: return of_10;
    case 11: return of_11;
    case 12: return of_12;
    case 13: return of_13;
    case 16: return of_16;
    case 17: return of_17;
    case 18: return of_18;
    case 20: return of_20;
    case 21: return of_21;
    case 23: return of_23;
    case 27: return of_27;
    default: return {};
  }
}

/// REQUIRES: both have `size` bytes, four at least.
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
  for (const Named& each : of_length(name.size())) {
    if (is_same(each.name.data(), name.data(), name.size())) return each.key;
  }
  return none;
}

}  // namespace evenkeel
