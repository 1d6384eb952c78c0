#include "server/saved_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>

#include "evenkeel/base/hash.h"

namespace evenkeel {
namespace {

using std::chrono::milliseconds;

// The first line has the version and the checksum of what follows: a line per fact, in words with
// one space between two.
constexpr std::string_view first_words = "evenkeel state 2 ";

constexpr milliseconds max_duration = std::chrono::hours(24);
constexpr double max_number = 1e9;
constexpr std::uint32_t max_count = 1'000'000'000;
constexpr std::string_view no_reason = "none";

Error failure(const char* why) { return Error{.fault = Fault::internal, .detail = why}; }

std::int64_t ms(Duration duration) {
  return std::min(std::chrono::duration_cast<milliseconds>(duration), max_duration).count();
}

void add_observed(std::string& facts, const SavedState::Key& key,
                  const SavedState::Observed& observed) {
  const auto& [pool, backend] = key;
  const LearnedState& learned = observed.learned;
  if (observed.down) facts += fmt::format("down {} {}\n", pool, backend);
  if (learned.latency_samples > 0) {
    facts += fmt::format("latency {} {} {} {} {}\n", pool, backend, learned.latency_seconds,
                         learned.latency_samples, ms(learned.latency_age));
  }
  if (learned.weight > 0) {
    facts += fmt::format("learned {} {} {} {}\n", pool, backend, learned.weight, learned.speed);
  }
  if (learned.ejections > 0) {
    facts += fmt::format("ejections {} {} {} {} {}\n", pool, backend, learned.ejections,
                         learned.ejected ? to_string(*learned.ejected) : no_reason,
                         ms(learned.ejected_for));
  }
}

/// Takes the words of one line in turn. After a word that is missing or malformed, `ok` is false.
class Words {
 public:
  explicit Words(std::string_view line) : rest_(line) {}

  std::string text() {
    const std::size_t space = rest_.find(' ');
    const std::string_view word = rest_.substr(0, space);
    rest_ = space == std::string_view::npos ? std::string_view() : rest_.substr(space + 1);
    ok_ = ok_ && !word.empty();
    return std::string(word);
  }
  template <class T>
  T number(T min, T max) {
    const std::string word = text();
    T value{};
    const char* const end = word.data() + word.size();
    const auto [parsed, error] = std::from_chars(word.data(), end, value);
    ok_ = ok_ && error == std::errc() && parsed == end && value >= min && value <= max;
    return ok_ ? value : min;
  }
  /// A longer one is read as the longest.
  Duration duration() {
    const auto ms = number<std::int64_t>(0, std::numeric_limits<std::int64_t>::max());
    return std::min(milliseconds(ms), max_duration);
  }

  /// Nothing is left, and nothing was malformed.
  bool complete() const { return ok_ && rest_.empty(); }
  void reject() { ok_ = false; }

 private:
  std::string_view rest_;
  bool ok_ = true;
};

std::optional<EjectionReason> read_reason(Words& words) {
  const std::string word = words.text();
  for (int i = 0; i < ejection_reason_count; ++i) {
    const auto reason = static_cast<EjectionReason>(i);
    if (word == to_string(reason)) return reason;
  }
  if (word != no_reason) words.reject();
  return std::nullopt;
}

/// The rest of a line about what was learned of a backend. False: it is of no such kind.
bool read_learned(std::string_view kind, Words& words, LearnedState& learned) {
  if (kind == "latency") {
    learned.latency_seconds = words.number<double>(0, max_number);
    learned.latency_samples = words.number<std::uint32_t>(0, max_count);
    learned.latency_age = words.duration();
  } else if (kind == "learned") {
    learned.weight = words.number<double>(0, max_number);
    learned.speed = words.number<double>(0, max_number);
  } else if (kind == "ejections") {
    learned.ejections = words.number<std::uint32_t>(0, max_count);
    learned.ejected = read_reason(words);
    learned.ejected_for = words.duration();
  } else {
    return false;
  }
  return true;
}

/// A line about what was observed of a backend, which is learned anew if it is malformed. False: it
/// is of no such kind.
bool read_observed(std::string_view kind, const SavedState::Key& key, Words& words,
                   SavedState& state) {
  const auto known = state.observed.find(key);
  SavedState::Observed observed;
  if (known != state.observed.end()) observed = known->second;
  if (kind == "down") {
    observed.down = true;
  } else if (!read_learned(kind, words, observed.learned)) {
    return false;
  }
  if (words.complete()) {
    state.observed.insert_or_assign(key, observed);
  } else {
    ++state.skipped_lines;
  }
  return true;
}

/// One fact; of an unknown kind, from a newer version, nothing. False: it is malformed.
bool read_line(std::string_view line, SavedState& state) {
  Words words(line);
  const std::string kind = words.text();
  if (kind == "saved") {
    constexpr std::int64_t year_3000 = 32'503'680'000'000;
    state.saved_at = SavedState::Time(milliseconds(words.number<std::int64_t>(0, year_3000)));
    return words.complete();
  }
  SavedState::Key key;
  key.first = words.text();
  key.second = words.text();
  if (read_observed(kind, key, words, state)) return true;
  if (kind == "drained") {
    state.drained.insert(key);
  } else if (kind == "weight") {
    SavedState::Weight& weight = state.weights[key];
    weight.weight = words.number<std::uint32_t>(0, max_count);
    weight.configured = words.number<std::uint32_t>(0, max_count);
  } else if (kind == "address") {
    state.addresses[key] = words.text();
  } else {
    return !kind.empty();
  }
  return words.complete();
}

}  // namespace

std::string to_text(const SavedState& state) {
  std::string facts = fmt::format("saved {}\n", state.saved_at.time_since_epoch().count());
  for (const auto& [pool, backend] : state.drained)
    facts += fmt::format("drained {} {}\n", pool, backend);
  for (const auto& [key, weight] : state.weights) {
    facts += fmt::format("weight {} {} {} {}\n", key.first, key.second, weight.weight,
                         weight.configured);
  }
  for (const auto& [key, address] : state.addresses)
    facts += fmt::format("address {} {} {}\n", key.first, key.second, address);
  for (const auto& [key, observed] : state.observed) add_observed(facts, key, observed);
  return fmt::format("{}{:016x}\n{}", first_words, hash_of(facts), facts);
}

Result<SavedState> parse_state(std::string_view text) {
  if (!text.starts_with(first_words)) return failure("it has another format");
  const std::size_t end = text.find('\n');
  if (end == std::string_view::npos) return failure("it is not complete");
  std::string_view facts = text.substr(end + 1);
  if (text.substr(first_words.size(), end - first_words.size()) !=
      fmt::format("{:016x}", hash_of(facts))) {
    return failure("its checksum is wrong");
  }
  SavedState state;
  while (!facts.empty()) {
    const std::size_t line_end = facts.find('\n');
    if (line_end == std::string_view::npos || !read_line(facts.substr(0, line_end), state))
      return failure("a line is malformed");
    facts.remove_prefix(line_end + 1);
  }
  return state;
}

}  // namespace evenkeel
