#include "server/scheduler_lines.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <limits>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace evenkeel {
namespace {

constexpr double max_number = 1e300;  // who continues with a number decides whether it is possible
constexpr std::uint64_t max_whole = std::numeric_limits<std::uint64_t>::max();
constexpr std::string_view unknown = "unknown";
constexpr std::size_t max_pools = 10'000;
constexpr std::size_t max_engines = 100'000;
constexpr std::size_t line_items = 64;            // lengths and classes of outputs
constexpr std::size_t line_blocks = 4096;         // prefixes
constexpr std::size_t max_sessions = 10'000'000;  // of a pool
constexpr std::string_view confirmed_kind = "sessions";
constexpr std::string_view unconfirmed_kind = "unconfirmed_sessions";
// An idle time below the tag of the backend, as one number.
constexpr int idle_bits = 24;
constexpr std::uint64_t max_idle = (std::uint64_t{1} << idle_bits) - 1;

// A block's hash is eleven digits of base 64, the lowest first.
constexpr std::string_view digits =
    "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_";
constexpr std::size_t hash_digits = 11;

constexpr std::array<std::uint8_t, 256> make_digit_values() {
  std::array<std::uint8_t, 256> values{};
  values.fill(64);
  for (std::size_t i = 0; i < digits.size(); ++i)
    values[static_cast<unsigned char>(digits[i])] = static_cast<std::uint8_t>(i);
  return values;
}
constexpr std::array<std::uint8_t, 256> digit_values = make_digit_values();

// ---- Writing ----------------------------------------------------------------------------------

void add_word(std::string& facts, double number) {
  fmt::format_to(std::back_inserter(facts), " {}", number);
}

template <std::size_t N>
void add_model(std::string& facts, const char* kind, const SavedState::Key& key,
               const LearnedModel<N>& model) {
  if (model.samples == 0) return;
  facts += fmt::format("{} {} {} {} {} {}", kind, key.first, key.second, model.samples,
                       model.weight, model.relative_error);
  for (const double each : model.coefficients) add_word(facts, each);
  for (const double each : model.max_variance) add_word(facts, each);
  for (std::size_t i = 0; i < N; ++i) {
    for (std::size_t j = 0; j <= i; ++j) add_word(facts, model.covariance[i][j]);
  }
  facts += '\n';
}

void add_engine(std::string& facts, const SavedState::Key& key, const LearnedEngine& engine) {
  facts += fmt::format(
      "engine {} {} {} {} {} {} {} {} {} {} {} {}", key.first, key.second, engine.kv_tokens,
      engine.step_tokens, engine.index_capacity, engine.tokens_per_block, engine.confirms_hits,
      engine.streams, engine.has_blocks, engine.finished, engine.mean_prefill, engine.mean_context);
  if (engine.load_seconds) add_word(facts, *engine.load_seconds);
  facts += '\n';
  add_model(facts, "step", key, engine.step);
  add_model(facts, "prefill", key, engine.prefill);
}

void add_traffic(std::string& facts, const std::string& pool, const LearnedTraffic& traffic) {
  facts += fmt::format("traffic {} {} {} {} {}\n", pool, traffic.mean_prefill,
                       traffic.tokens_per_event, traffic.cached_found, traffic.cached_possible);
  const auto& lengths = traffic.output_lengths;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    if (i % line_items == 0) facts += fmt::format("{}lengths {}", i == 0 ? "" : "\n", pool);
    add_word(facts, lengths[i]);
  }
  if (!lengths.empty()) facts += '\n';
  const auto& classes = traffic.output_classes;
  for (std::size_t i = 0; i < classes.size(); ++i) {
    if (i % line_items == 0) facts += fmt::format("{}classes {}", i == 0 ? "" : "\n", pool);
    fmt::format_to(std::back_inserter(facts), " {:x} {} {}", classes[i].key, classes[i].outputs,
                   classes[i].mean);
  }
  if (!classes.empty()) facts += '\n';
}

void add_hashes(std::string& facts, std::span<const std::uint64_t> hashes) {
  std::array<char, hash_digits> word;
  for (std::uint64_t hash : hashes) {
    for (char& digit : word) {
      digit = digits[hash % digits.size()];
      hash /= digits.size();
    }
    facts.append(word.data(), word.size());
  }
}

// ---- Reading ----------------------------------------------------------------------------------

double read_number(StateWords& words) { return words.number<double>(-max_number, max_number); }

template <std::size_t N>
LearnedModel<N> read_model(StateWords& words) {
  LearnedModel<N> model;
  model.samples = words.number<std::uint64_t>(0, max_whole);
  model.weight = read_number(words);
  model.relative_error = read_number(words);
  for (double& each : model.coefficients) each = read_number(words);
  for (double& each : model.max_variance) each = read_number(words);
  for (std::size_t i = 0; i < N; ++i) {
    for (std::size_t j = 0; j <= i; ++j)
      model.covariance[i][j] = model.covariance[j][i] = read_number(words);
  }
  return model;
}

/// All but models and caches.
void read_engine(StateWords& words, LearnedEngine& engine) {
  engine.kv_tokens = words.number<std::uint64_t>(0, max_whole);
  engine.step_tokens = words.number<std::uint32_t>(0, std::numeric_limits<std::uint32_t>::max());
  for (double* const each : {&engine.index_capacity, &engine.tokens_per_block,
                             &engine.confirms_hits, &engine.streams, &engine.has_blocks}) {
    *each = read_number(words);
  }
  engine.finished = words.number<std::uint64_t>(0, max_whole);
  engine.mean_prefill = read_number(words);
  engine.mean_context = read_number(words);
  if (!words.at_end()) engine.load_seconds = read_number(words);
}

std::optional<double> read_if_known(StateWords& words) {
  StateWords ahead = words;
  if (ahead.view() == unknown) {
    words = ahead;
    return std::nullopt;
  }
  return read_number(words);
}

std::vector<LearnedEngine::Adapter> read_adapters(StateWords& words) {
  std::vector<LearnedEngine::Adapter> adapters;
  while (words.ok() && !words.at_end()) {
    LearnedEngine::Adapter& each = adapters.emplace_back();
    each.name = words.number<std::uint64_t>(0, max_whole, 16);
    each.age = read_number(words);
  }
  return adapters;
}

std::vector<std::uint64_t> read_hashes(StateWords& words) {
  const std::string_view text = words.view();
  std::vector<std::uint64_t> hashes;
  if (text.size() % hash_digits != 0) words.reject();
  hashes.reserve(text.size() / hash_digits);
  for (std::size_t at = 0; words.ok() && at < text.size(); at += hash_digits) {
    std::uint64_t hash = 0;
    for (std::size_t i = hash_digits; i-- > 0;) {
      const std::uint8_t value = digit_values[static_cast<unsigned char>(text[at + i])];
      if (value == 64 || hash >> 58 != 0) words.reject();
      hash = hash << 6 | value;
    }
    hashes.push_back(hash);
  }
  return hashes;
}

/// The entry to change; null: the line is malformed, or there are too many.
template <class Map>
typename Map::mapped_type* entry_of(Map& map, const typename Map::key_type& key, std::size_t most,
                                    const StateWords& words) {
  const auto found = map.find(key);
  if (!words.complete() || (found == map.end() && map.size() == most)) return nullptr;
  return &(found != map.end() ? found->second : map[key]);
}

/// False: the line is malformed.
bool read_of_traffic(std::string_view kind, StateWords& words, SavedState& state) {
  const std::string pool = words.text();
  LearnedTraffic read;
  if (kind == "traffic") {
    for (double* const each :
         {&read.mean_prefill, &read.tokens_per_event, &read.cached_found, &read.cached_possible}) {
      *each = read_number(words);
    }
  }
  while (kind == "lengths" && words.ok() && !words.at_end())
    read.output_lengths.push_back(read_number(words));
  while (kind == "classes" && words.ok() && !words.at_end()) {
    auto& each = read.output_classes.emplace_back();
    each.key = words.number<std::uint64_t>(0, max_whole, 16);
    each.outputs = read_number(words);
    each.mean = read_number(words);
  }
  LearnedTraffic* const known = entry_of(state.traffic, pool, max_pools, words);
  if (known == nullptr) return false;
  if (kind == "traffic") {
    read.output_lengths = std::move(known->output_lengths);
    read.output_classes = std::move(known->output_classes);
    *known = std::move(read);
    return true;
  }
  std::ranges::move(read.output_lengths, std::back_inserter(known->output_lengths));
  std::ranges::move(read.output_classes, std::back_inserter(known->output_classes));
  return true;
}

/// Likewise.
bool read_of_engine(std::string_view kind, StateWords& words, SavedState& state) {
  SavedState::Key key;
  key.first = words.text();
  key.second = words.text();
  const auto change = [&](auto apply) {
    LearnedEngine* const known = entry_of(state.engines, key, max_engines, words);
    if (known != nullptr) apply(*known);
    return known != nullptr;
  };
  if (kind == "step") {
    const auto model = read_model<3>(words);
    return change([&](LearnedEngine& engine) { engine.step = model; });
  }
  if (kind == "prefill") {
    const auto model = read_model<2>(words);
    return change([&](LearnedEngine& engine) { engine.prefill = model; });
  }
  if (kind == "run") {
    EngineRun run{.start_time = read_if_known(words)};
    run.work_done = read_if_known(words);
    return change([&](LearnedEngine& engine) { engine.run = run; });
  }
  if (kind == "adapters") {
    auto adapters = read_adapters(words);
    return change([&](LearnedEngine& engine) { engine.adapters = std::move(adapters); });
  }
  if (kind == "prefixes") {
    const auto hashes = read_hashes(words);
    return change([&](LearnedEngine& engine) {
      engine.prefixes.insert(engine.prefixes.end(), hashes.begin(), hashes.end());
    });
  }
  LearnedEngine read;
  read_engine(words, read);
  return change([&](LearnedEngine& engine) {
    read.step = engine.step;
    read.prefill = engine.prefill;
    read.run = engine.run;
    read.adapters = std::move(engine.adapters);
    read.prefixes = std::move(engine.prefixes);
    engine = std::move(read);
  });
}

/// Likewise.
bool read_sessions(StateWords& words, bool confirmed, SavedState& state) {
  const std::string pool = words.text();
  const auto numbers = read_hashes(words);
  auto* const known = entry_of(state.sessions, pool, max_pools, words);
  const bool fits = known != nullptr && numbers.size() % 2 == 0 &&
                    known->size() + numbers.size() / 2 <= max_sessions;
  if (!fits) return false;
  for (std::size_t i = 0; i < numbers.size(); i += 2) {
    const std::chrono::seconds idle(numbers[i + 1] & max_idle);
    known->push_back({.key = numbers[i],
                      .tag = numbers[i + 1] >> idle_bits,
                      .idle = idle,
                      .confirmed = confirmed});
  }
  return true;
}

/// Likewise.
bool read_tokenizer(StateWords& words, SavedState& state) {
  const TokenEstimates::Learned read{.model = words.number<std::uint64_t>(0, max_whole, 16),
                                     .bytes_per_token = read_number(words),
                                     .rough = words.number<int>(0, 1) == 1};
  if (!words.complete()) return false;
  state.tokenizers.push_back(read);
  return true;
}

bool is_one_of(std::string_view kind, std::initializer_list<std::string_view> kinds) {
  return std::ranges::find(kinds, kind) != kinds.end();
}

}  // namespace

void add_scheduler_lines(std::string& facts, const SavedState& state) {
  for (const TokenEstimates::Learned& each : state.tokenizers) {
    facts +=
        fmt::format("tokenizer {:x} {} {}\n", each.model, each.bytes_per_token, each.rough ? 1 : 0);
  }
  for (const auto& [pool, traffic] : state.traffic) add_traffic(facts, pool, traffic);
  for (const auto& [key, engine] : state.engines) add_engine(facts, key, engine);
}

void add_prefix_lines(std::string& facts, const SavedState::Key& key, const LearnedEngine& engine) {
  if (engine.run != EngineRun{}) {
    const auto word = [](const std::optional<double>& number) {
      return number ? fmt::format("{}", *number) : std::string(unknown);
    };
    facts += fmt::format("run {} {} {} {}\n", key.first, key.second, word(engine.run.start_time),
                         word(engine.run.work_done));
  }
  if (!engine.adapters.empty()) {
    facts += fmt::format("adapters {} {}", key.first, key.second);
    for (const LearnedEngine::Adapter& each : engine.adapters)
      fmt::format_to(std::back_inserter(facts), " {:x} {}", each.name, each.age);
    facts += '\n';
  }
  const std::span<const std::uint64_t> blocks(engine.prefixes);
  for (std::size_t at = 0; at < blocks.size(); at += line_blocks) {
    facts += fmt::format("prefixes {} {} ", key.first, key.second);
    add_hashes(facts, blocks.subspan(at, std::min(line_blocks, blocks.size() - at)));
    facts += '\n';
  }
}

void add_session_lines(std::string& facts, const std::string& pool,
                       std::span<const AffinityTable::Saved> sessions) {
  for (const bool confirmed : {true, false}) {
    std::size_t in_line = 0;
    for (const AffinityTable::Saved& each : sessions) {
      if (each.confirmed != confirmed) continue;
      if (in_line == 0) {
        facts += confirmed ? confirmed_kind : unconfirmed_kind;
        facts += fmt::format(" {} ", pool);
      }
      const auto idle = std::min(static_cast<std::uint64_t>(each.idle.count()), max_idle);
      add_hashes(facts, std::array{each.key, each.tag << idle_bits | idle});
      in_line = (in_line + 1) % (line_blocks / 2);
      if (in_line == 0) facts += '\n';
    }
    if (in_line != 0) facts += '\n';
  }
}

bool read_scheduler_line(std::string_view kind, StateWords& words, SavedState& state) {
  const bool of_traffic = is_one_of(kind, {"traffic", "lengths", "classes"});
  const bool of_tokenizer = kind == "tokenizer";
  const bool of_sessions = is_one_of(kind, {confirmed_kind, unconfirmed_kind});
  const bool of_engine =
      is_one_of(kind, {"engine", "step", "prefill", "run", "adapters", "prefixes"});
  if (!of_traffic && !of_tokenizer && !of_sessions && !of_engine) return false;
  bool is_read = false;
  if (of_traffic) is_read = read_of_traffic(kind, words, state);
  if (of_tokenizer) is_read = read_tokenizer(words, state);
  if (of_sessions) is_read = read_sessions(words, kind == confirmed_kind, state);
  if (of_engine) is_read = read_of_engine(kind, words, state);
  if (!is_read) ++state.skipped_lines;
  return true;
}

}  // namespace evenkeel
