// Measures what reading the bodies of requests costs: facts, sizes and hashes of prompts, in pieces
// as the network delivers them.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

#include "bench/flags.h"
#include "evenkeel/inference/request_reader.h"

namespace evenkeel::bench {
namespace {

using Clock = std::chrono::steady_clock;

std::string repeated(std::string_view text, std::size_t bytes) {
  std::string all;
  while (all.size() < bytes) all += text;
  return all;
}

std::string chat(std::string_view content) {
  return R"({"model":"llama","messages":[{"role":"system","content":"Be brief."},)"
         R"({"role":"user","content":")" +
         std::string(content) + R"("}],"stream":true,"max_tokens":128,"temperature":0.7})";
}

std::string token_ids(std::size_t bytes) {
  std::string ids;
  for (std::uint32_t id = 1; ids.size() < bytes; id = id * 1664525 + 1013904223) {
    ids += std::to_string(id >> 15) + ", ";
  }
  return R"({"model":"llama","prompt":[)" + ids + "1]}";
}

/// Reads the body once. False: it is malformed.
bool read(std::string_view path, std::string_view body, std::size_t piece_bytes) {
  InferenceRequest request;
  const auto reader = RequestReader::create({.method = "POST", .path = path}, request);
  while (!body.empty()) {
    if (!reader->read(body.substr(0, piece_bytes))) return false;
    body.remove_prefix(std::min(piece_bytes, body.size()));
  }
  return reader->finish();
}

struct Measurement {
  std::size_t piece_bytes = 0;
  std::uint64_t runs = 0;
};

/// Prints the fastest of many short runs: what else the machine does makes none faster.
void measure(const char* name, std::string_view path, const std::string& body,
             const Measurement& how) {
  constexpr int repeats = 5;
  auto best = Clock::duration::max();
  for (std::uint64_t run = 0; run < how.runs; ++run) {
    const auto begin = Clock::now();
    for (int i = 0; i < repeats; ++i) {
      if (!read(path, body, how.piece_bytes)) exit_with_usage_error("a body is malformed");
    }
    best = std::min(best, (Clock::now() - begin) / repeats);
  }
  const double seconds = std::chrono::duration<double>(best).count();
  std::printf("%-28s %8zu bytes %9.2f us %6.2f GB/s\n", name, body.size(), seconds * 1e6,
              static_cast<double>(body.size()) / seconds / 1e9);
}

int run(int argument_count, char** arguments) {
  Flags flags(argument_count, arguments);
  const std::size_t bytes = flags.number("--bytes", 220 * 1024);
  const Measurement how = {.piece_bytes = flags.number("--piece-bytes", 16 * 1024),
                           .runs = flags.number("--runs", 300)};
  flags.reject_unknown();
  constexpr std::string_view chat_path = "/v1/chat/completions";
  constexpr std::string_view line = "The quick brown fox jumps over the lazy dog and runs away.\\n";
  measure("small chat", chat_path, chat("Hello, how are you?"), how);
  measure("prose, escaped line ends", chat_path, chat(repeated(line, bytes)), how);
  measure("Chinese in UTF-8", chat_path,
          chat(repeated("\xe4\xbd\xa0\xe5\xa5\xbd\xe4\xb8\x96\xe7\x95\x8c\\n", bytes)), how);
  measure("Chinese in escapes", chat_path, chat(repeated("\\u4f60\\u597d", bytes)), how);
  measure("token ids", "/v1/completions", token_ids(bytes), how);
  return 0;
}

}  // namespace
}  // namespace evenkeel::bench

int main(int argument_count, char** arguments) {
  return evenkeel::bench::run(argument_count, arguments);
}
