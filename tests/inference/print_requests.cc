// Reads requests from stdin and prints what RequestReader makes of them, a line of JSON for each.
// tests/inference/request_oracle.py writes them: a line "PATH SIZE SEED", then the body, which is
// cut at places that follow from the seed.
#include <cstdio>
#include <iostream>
#include <random>
#include <string>

#include "evenkeel/json/writer.h"
#include "read_request.h"

namespace {

using namespace evenkeel;

std::vector<std::string_view> cut(std::string_view body, unsigned seed) {
  std::mt19937 random(seed);
  const std::size_t longest = 1 + random() % (body.size() + 1);
  std::vector<std::string_view> pieces;
  while (!body.empty()) {
    const std::size_t size = std::min<std::size_t>(1 + random() % longest, body.size());
    pieces.push_back(body.substr(0, size));
    body.remove_prefix(size);
  }
  return pieces;
}

template <class T>
std::string number_or_null(const std::optional<T>& value) {
  return value ? std::to_string(*value) : "null";
}

void print(const ReadRequest& read) {
  const auto flag = [](bool truth) { return truth ? "true" : "false"; };
  const InferenceRequest& it = read.request;
  std::string ranges;
  for (const BodyRange& each : read.model_values) {
    ranges += (ranges.empty() ? "[" : ",[") + std::to_string(each.begin) + "," +
              std::to_string(each.end) + "]";
  }
  std::cout << "{\"accepted\":" << flag(read.accepted)
            << ",\"problem\":" << json_string(read.problem)
            << ",\"model\":" << json_string(it.model) << ",\"stream\":" << flag(it.stream)
            << ",\"include_usage\":" << flag(it.include_usage)
            << ",\"max_tokens\":" << number_or_null(it.max_tokens) << ",\"choices\":" << it.choices
            << ",\"prompt_bytes\":" << it.prompt_bytes << ",\"prompt_tokens\":" << it.prompt_tokens
            << ",\"images\":" << it.images << ",\"session\":" << json_string(it.session)
            << ",\"user\":" << json_string(it.user)
            << ",\"priority\":" << number_or_null(it.priority)
            << ",\"has_conversation\":" << flag(it.conversation != 0) << ",\"models\":[" << ranges
            << "]}\n";
}

}  // namespace

int main() {
  std::ios::sync_with_stdio(false);
  std::string path;
  std::size_t size = 0;
  unsigned seed = 0;
  while (std::cin >> path >> size >> seed) {
    std::cin.get();
    std::string body(size, '\0');
    std::cin.read(body.data(), static_cast<std::streamsize>(size));
    print(read_pieces(post(path), cut(body, seed)));
  }
}
