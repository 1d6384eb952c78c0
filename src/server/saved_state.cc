#include "server/saved_state.h"

#include <fmt/format.h>

#include <sstream>

#include "evenkeel/base/hash.h"

namespace evenkeel {
namespace {

// The first line has the version and the checksum of what follows: a line per fact.
constexpr std::string_view first_words = "evenkeel state 1 ";

Error failure(const char* why) { return Error{.fault = Fault::internal, .detail = why}; }

}  // namespace

std::string to_text(const SavedState& state) {
  std::string facts;
  for (const auto& [pool, backend] : state.drained)
    facts += fmt::format("drained {} {}\n", pool, backend);
  for (const auto& [key, weight] : state.weights) {
    facts += fmt::format("weight {} {} {} {}\n", key.first, key.second, weight.weight,
                         weight.configured);
  }
  return fmt::format("{}{:016x}\n{}", first_words, hash_of(facts), facts);
}

Result<SavedState> parse_state(std::string_view text) {
  if (!text.starts_with(first_words)) return failure("it has another format");
  const std::size_t end = text.find('\n');
  if (end == std::string_view::npos) return failure("it is not complete");
  const std::string_view facts = text.substr(end + 1);
  if (text.substr(first_words.size(), end - first_words.size()) !=
      fmt::format("{:016x}", hash_of(facts))) {
    return failure("its checksum is wrong");
  }
  SavedState state;
  std::istringstream words{std::string(facts)};
  for (std::string kind, pool, backend; words >> kind >> pool >> backend;) {
    if (kind == "drained") {
      state.drained.emplace(pool, backend);
    } else if (kind == "weight") {
      SavedState::Weight& weight = state.weights[{pool, backend}];
      words >> weight.weight >> weight.configured;
    }
  }
  if (!words.eof()) return failure("a line is malformed");
  return state;
}

}  // namespace evenkeel
