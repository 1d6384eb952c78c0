#include "evenkeel/load/request_generator.h"

#include <algorithm>

#include "evenkeel/base/rng.h"
#include "evenkeel/json/writer.h"

namespace evenkeel {
namespace {

constexpr std::size_t bytes_per_token = 4;

/// Mixes two numbers into a seed; seeds of different pairs are independent.
std::uint64_t seed_of(std::uint64_t a, std::uint64_t b) { return mix(mix(a + 1) ^ b); }

std::uint32_t draw(Rng& chance, const TokenRange& range) {
  return range.low + chance.below(range.high - range.low + 1);
}

/// Words of three letters and a space: one token each at 4 bytes per token.
void append_words(std::string& out, std::uint64_t seed, std::uint32_t count) {
  static constexpr char letters[] = "abcdefghijklmnopqrstuvwxyzaeiout";
  Rng chance(seed);
  const std::size_t begin = out.size();
  out.resize(begin + count * bytes_per_token);
  char* next = out.data() + begin;
  std::uint64_t bits = 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    if (i % 4 == 0) bits = chance();
    *next++ = letters[bits & 31];
    *next++ = letters[(bits >> 5) & 31];
    *next++ = letters[(bits >> 10) & 31];
    *next++ = ' ';
    bits >>= 15;
  }
}

}  // namespace

RequestGenerator::RequestGenerator(const LoadOptions& options, std::string_view model,
                                   const Trace* trace)
    : options_(options), trace_(trace), before_prompt_("{\"model\":") {
  append_json_string(before_prompt_, model);
  before_prompt_ += ",\"messages\":[{\"role\":\"user\",\"content\":\"";
}

LoadRequest RequestGenerator::load_request(std::uint64_t index) const {
  LoadRequest load_request{.index = index};
  if (trace_ != nullptr) {
    load_request.row = &trace_->rows[index];
    load_request.prompt_tokens = std::max(load_request.row->prompt_tokens, 1u);
    load_request.output_tokens = std::max(load_request.row->output_tokens, 1u);
  } else {
    Rng chance(seed_of(options_.seed, index));
    load_request.prompt_tokens = draw(chance, options_.prompt_tokens);
    load_request.output_tokens = draw(chance, options_.output_tokens);
  }
  if (options_.max_prompt_tokens != 0) {
    load_request.prompt_tokens = std::min(load_request.prompt_tokens, options_.max_prompt_tokens);
  }
  return load_request;
}

void RequestGenerator::append_prompt(const LoadRequest& load_request, std::string& out) const {
  std::uint32_t missing = load_request.prompt_tokens;
  if (load_request.row != nullptr) {
    for (const std::uint64_t id : load_request.row->block_ids) {
      const std::uint32_t taken = std::min(missing, trace_block_tokens);
      append_words(out, seed_of(options_.seed, id), taken);
      missing -= taken;
    }
  }
  append_words(out, seed_of(~options_.seed, load_request.index), missing);
}

std::string RequestGenerator::prompt(const LoadRequest& load_request) const {
  std::string text;
  append_prompt(load_request, text);
  return text;
}

std::string RequestGenerator::body(const LoadRequest& load_request) const {
  std::string body;
  body.reserve(before_prompt_.size() + load_request.prompt_tokens * bytes_per_token + 160);
  body += before_prompt_;
  append_prompt(load_request, body);
  body += "\"}],\"max_tokens\":";
  body += std::to_string(load_request.output_tokens);
  // vLLM, SGLang and others: go on to max_tokens, so that every run does the same work.
  body += ",\"ignore_eos\":true";
  if (load_request.row != nullptr && !load_request.row->tenant.empty()) {
    body += ",\"user\":";
    append_json_string(body, load_request.row->tenant);
  }
  if (options_.stream) body += ",\"stream\":true,\"stream_options\":{\"include_usage\":true}";
  body += '}';
  return body;
}

}  // namespace evenkeel
