#include "server/saved_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "evenkeel/base/hash.h"
#include "server/scheduler_lines.h"
#include "server/state_words.h"

namespace evenkeel {
namespace {

using std::chrono::milliseconds;

// The first line has the version and the checksum of what follows: a line per fact, in words with
// one space between two. If that checksum is wrong, the first sections that are whole are read: a
// section ends with a line that has its own.
constexpr std::string_view first_words = "evenkeel state 2 ";
constexpr std::string_view section_end = "checked ";

constexpr double max_number = 1e9;
constexpr std::uint32_t max_count = 1'000'000'000;
constexpr std::string_view no_reason = "none";

Error failure(const char* why) { return Error{.fault = Fault::internal, .detail = why}; }

std::int64_t ms(Duration duration) {
  return std::min(std::chrono::duration_cast<milliseconds>(duration), StateWords::max_duration)
      .count();
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

std::optional<EjectionReason> read_reason(StateWords& words) {
  const std::string word = words.text();
  for (int i = 0; i < ejection_reason_count; ++i) {
    const auto reason = static_cast<EjectionReason>(i);
    if (word == to_string(reason)) return reason;
  }
  if (word != no_reason) words.reject();
  return std::nullopt;
}

/// The rest of a line about what was learned of a backend. False: it is of no such kind.
bool read_learned(std::string_view kind, StateWords& words, LearnedState& learned) {
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
bool read_observed(std::string_view kind, const SavedState::Key& key, StateWords& words,
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

/// Further from now than 292 years a difference in nanoseconds would overflow.
constexpr std::int64_t year_2200 = 7'258'118'400'000;

/// One fact; of an unknown kind, from a newer version, nothing. False: it is malformed.
bool read_line(std::string_view line, SavedState& state) {
  StateWords words(line);
  const std::string kind = words.text();
  if (kind == "saved") {
    state.saved_at = SavedState::Time(milliseconds(words.number<std::int64_t>(0, year_2200)));
    return words.complete();
  }
  if (read_scheduler_line(kind, words, state)) return true;
  SavedState::Key key;
  key.first = words.text();
  key.second = words.text();
  if (read_observed(kind, key, words, state)) return true;
  if (kind == "drained") {
    state.drained.insert(key);
  } else if (kind == "drain_end") {
    state.drain_ends[key] =
        SavedState::Time(milliseconds(words.number<std::int64_t>(0, year_2200)));
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

std::string checksum(std::string_view facts) { return fmt::format("{:016x}", hash_of(facts)); }

void add_operators_facts(std::string& facts, const SavedState& state) {
  for (const auto& [pool, backend] : state.drained)
    facts += fmt::format("drained {} {}\n", pool, backend);
  for (const auto& [key, end] : state.drain_ends) {
    facts +=
        fmt::format("drain_end {} {} {}\n", key.first, key.second, end.time_since_epoch().count());
  }
  for (const auto& [key, weight] : state.weights) {
    facts += fmt::format("weight {} {} {} {}\n", key.first, key.second, weight.weight,
                         weight.configured);
  }
  for (const auto& [key, address] : state.addresses)
    facts += fmt::format("address {} {} {}\n", key.first, key.second, address);
}

/// The facts up to the first section that is damaged or not complete.
std::string_view whole_sections(std::string_view facts) {
  std::size_t whole = 0;
  for (std::size_t at = 0; at < facts.size();) {
    const std::size_t end = facts.find('\n', at);
    if (end == std::string_view::npos) break;
    const std::string_view line = facts.substr(at, end - at);
    if (line.starts_with(section_end)) {
      const std::string_view section = facts.substr(whole, at - whole);
      if (line.substr(section_end.size()) != checksum(section)) break;
      whole = end + 1;
    }
    at = end + 1;
  }
  return facts.substr(0, whole);
}

}  // namespace

std::string to_text(const SavedState& state) {
  std::string facts = fmt::format("saved {}\n", state.saved_at.time_since_epoch().count());
  std::size_t begin = 0;
  const auto end_section = [&] {
    if (facts.size() == begin) return;
    facts += fmt::format("{}{}\n", section_end, checksum(std::string_view(facts).substr(begin)));
    begin = facts.size();
  };
  add_operators_facts(facts, state);
  end_section();
  for (const auto& [key, observed] : state.observed) add_observed(facts, key, observed);
  end_section();
  add_scheduler_lines(facts, state);
  end_section();
  for (const auto& [pool, sessions] : state.sessions) add_session_lines(facts, pool, sessions);
  end_section();
  for (const auto& [key, engine] : state.engines) {
    add_prefix_lines(facts, key, engine);
    end_section();
  }
  return fmt::format("{}{}\n{}", first_words, checksum(facts), facts);
}

Result<SavedState> parse_state(std::string_view text) {
  if (!text.starts_with(first_words)) return failure("it has another format");
  const std::size_t end = text.find('\n');
  if (end == std::string_view::npos) return failure("it is not complete");
  std::string_view facts = text.substr(end + 1);
  SavedState state;
  if (text.substr(first_words.size(), end - first_words.size()) != checksum(facts)) {
    facts = whole_sections(facts);
    if (facts.empty()) return failure("its checksum is wrong");
    state.damaged = true;
  }
  while (!facts.empty()) {
    const std::size_t line_end = facts.find('\n');
    if (line_end == std::string_view::npos || !read_line(facts.substr(0, line_end), state))
      return failure("a line is malformed");
    facts.remove_prefix(line_end + 1);
  }
  return state;
}

}  // namespace evenkeel
