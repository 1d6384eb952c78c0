#include "evenkeel/state/saved_state.h"

#include <fmt/format.h>
#include <state_proto/state.pb.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "evenkeel/base/hash.h"

namespace evenkeel {
namespace {

using std::chrono::milliseconds;

// The first line has the version of the format and the checksum of the message that follows.
constexpr std::string_view first_words = "evenkeel state 3 ";
constexpr std::size_t checksum_digits = 16;

constexpr milliseconds max_duration = std::chrono::hours(24);
/// Further from now than 292 years a difference in nanoseconds would overflow.
constexpr std::int64_t year_2200 = 7'258'118'400'000;

Error failure(const char* why) { return Error{.fault = Fault::internal, .detail = why}; }

std::string checksum(std::string_view message) { return fmt::format("{:016x}", hash_of(message)); }

// ---- writing ----------------------------------------------------------------------------------

std::int64_t ms(Duration duration) {
  return std::min(std::chrono::duration_cast<milliseconds>(duration), max_duration).count();
}

std::int64_t ms(SavedState::Time time) { return time.time_since_epoch().count(); }

/// Finds the parts of a message by their names, and adds those that it has not yet.
class Parts {
 public:
  explicit Parts(state::State& message) : message_(message) {}

  state::Backend& backend(const SavedState::Key& key) {
    state::Backend*& part = backends_[key];
    if (part == nullptr) {
      part = message_.add_backends();
      part->set_pool(key.first);
      part->set_id(key.second);
    }
    return *part;
  }
  state::Pool& pool(const std::string& name) {
    state::Pool*& part = pools_[name];
    if (part == nullptr) {
      part = message_.add_pools();
      part->set_name(name);
    }
    return *part;
  }

 private:
  state::State& message_;
  std::map<SavedState::Key, state::Backend*> backends_;
  std::map<std::string, state::Pool*> pools_;
};

void write(const SavedState::Observed& observed, state::Observed& message) {
  const LearnedState& learned = observed.learned;
  message.set_down(observed.down);
  message.set_latency_seconds(learned.latency_seconds);
  message.set_latency_samples(learned.latency_samples);
  message.set_latency_age_ms(ms(learned.latency_age));
  message.set_weight(learned.weight);
  message.set_speed(learned.speed);
  message.set_ejections(learned.ejections);
  if (learned.ejected) message.set_ejected(to_string(*learned.ejected));
  message.set_ejected_for_ms(ms(learned.ejected_for));
}

template <std::size_t N>
void write(const LearnedModel<N>& model, state::Model& message) {
  message.set_samples(model.samples);
  message.set_weight(model.weight);
  message.mutable_coefficients()->Add(model.coefficients.begin(), model.coefficients.end());
  message.mutable_max_variance()->Add(model.max_variance.begin(), model.max_variance.end());
  for (const auto& row : model.covariance)
    message.mutable_covariance()->Add(row.begin(), row.end());
}

void write(const LearnedEngine& engine, state::Engine& message) {
  if (engine.step.samples > 0) write(engine.step, *message.mutable_step());
  if (engine.prefill.samples > 0) write(engine.prefill, *message.mutable_prefill());
  message.set_kv_tokens(engine.kv_tokens);
  message.set_step_tokens(engine.step_tokens);
  message.set_index_capacity(engine.index_capacity);
  message.set_tokens_per_block(engine.tokens_per_block);
  message.set_confirms_hits(engine.confirms_hits);
  message.set_streams(engine.streams);
  message.set_has_blocks(engine.has_blocks);
  message.set_finished(engine.finished);
  message.set_mean_prefill(engine.mean_prefill);
  message.set_mean_context(engine.mean_context);
  if (engine.load_seconds) message.set_load_seconds(*engine.load_seconds);
  if (engine.run.start_time) message.set_run_start_time(*engine.run.start_time);
  if (engine.run.work_done) message.set_run_work_done(*engine.run.work_done);
  for (const LearnedEngine::Adapter& each : engine.adapters) {
    state::Adapter& adapter = *message.add_adapters();
    adapter.set_name(each.name);
    adapter.set_age(each.age);
  }
  message.mutable_prefixes()->Add(engine.prefixes.begin(), engine.prefixes.end());
}

void write(const LearnedTraffic& traffic, state::Traffic& message) {
  message.set_mean_prefill(traffic.mean_prefill);
  message.set_tokens_per_event(traffic.tokens_per_event);
  message.set_cached_found(traffic.cached_found);
  message.set_cached_possible(traffic.cached_possible);
  for (const LearnedTraffic::OutputClass& each : traffic.output_classes) {
    state::OutputClass& output_class = *message.add_output_classes();
    output_class.set_key(each.key);
    output_class.set_outputs(each.outputs);
    output_class.set_mean(each.mean);
  }
  message.mutable_output_lengths()->Add(traffic.output_lengths.begin(),
                                        traffic.output_lengths.end());
}

void write(const std::vector<AffinityTable::Saved>& sessions, state::Sessions& message) {
  for (const AffinityTable::Saved& each : sessions) {
    message.add_keys(each.key);
    message.add_tags(each.tag);
    message.add_idle_seconds(static_cast<std::uint32_t>(
        std::min<std::int64_t>(each.idle.count(), std::numeric_limits<std::uint32_t>::max())));
    message.add_confirmed(each.confirmed);
  }
}

// ---- reading ----------------------------------------------------------------------------------

// The checksum finds damage; what remains is that the process that continues finds no number that
// is none, and no time that overflows. Whether a number is possible it decides itself.

Duration duration_of(std::int64_t ms) {
  return std::clamp(milliseconds(ms), milliseconds(0), max_duration);
}

SavedState::Time time_of(std::int64_t ms) {
  return SavedState::Time(milliseconds(std::clamp<std::int64_t>(ms, 0, year_2200)));
}

double number(double value) { return std::isfinite(value) ? value : 0; }

template <class Values>
std::vector<double> numbers(const Values& values) {
  std::vector<double> all(values.begin(), values.end());
  for (double& each : all) each = number(each);
  return all;
}

std::optional<EjectionReason> reason_of(std::string_view word) {
  for (std::size_t i = 0; i < ejection_reason_count; ++i) {
    const auto reason = static_cast<EjectionReason>(i);
    if (word == to_string(reason)) return reason;
  }
  return std::nullopt;
}

SavedState::Observed read(const state::Observed& message) {
  return {.down = message.down(),
          .learned = {.latency_seconds = number(message.latency_seconds()),
                      .latency_samples = message.latency_samples(),
                      .latency_age = duration_of(message.latency_age_ms()),
                      .weight = number(message.weight()),
                      .speed = number(message.speed()),
                      .ejections = message.ejections(),
                      .ejected = reason_of(message.ejected()),
                      .ejected_for = duration_of(message.ejected_for_ms())}};
}

template <std::size_t N>
LearnedModel<N> read_model(const state::Model& message) {
  LearnedModel<N> model;
  const std::vector<double> coefficients = numbers(message.coefficients());
  const std::vector<double> max_variance = numbers(message.max_variance());
  const std::vector<double> covariance = numbers(message.covariance());
  const bool whole =
      coefficients.size() == N && max_variance.size() == N && covariance.size() == N * N;
  if (!whole || message.samples() == 0) return model;
  model.samples = message.samples();
  model.weight = number(message.weight());
  std::ranges::copy(coefficients, model.coefficients.begin());
  std::ranges::copy(max_variance, model.max_variance.begin());
  for (std::size_t i = 0; i < N * N; ++i) model.covariance[i / N][i % N] = covariance[i];
  return model;
}

LearnedEngine read(const state::Engine& message) {
  LearnedEngine engine{.step = read_model<3>(message.step()),
                       .prefill = read_model<2>(message.prefill()),
                       .kv_tokens = message.kv_tokens(),
                       .step_tokens = message.step_tokens(),
                       .index_capacity = number(message.index_capacity()),
                       .tokens_per_block = number(message.tokens_per_block()),
                       .confirms_hits = number(message.confirms_hits()),
                       .streams = number(message.streams()),
                       .has_blocks = number(message.has_blocks()),
                       .finished = message.finished(),
                       .mean_prefill = number(message.mean_prefill()),
                       .mean_context = number(message.mean_context()),
                       .prefixes = {message.prefixes().begin(), message.prefixes().end()}};
  if (message.has_load_seconds()) engine.load_seconds = number(message.load_seconds());
  if (message.has_run_start_time()) engine.run.start_time = number(message.run_start_time());
  if (message.has_run_work_done()) engine.run.work_done = number(message.run_work_done());
  for (const state::Adapter& each : message.adapters()) {
    engine.adapters.push_back({.name = each.name(), .age = number(each.age())});
  }
  return engine;
}

LearnedTraffic read(const state::Traffic& message) {
  LearnedTraffic traffic{.mean_prefill = number(message.mean_prefill()),
                         .tokens_per_event = number(message.tokens_per_event()),
                         .cached_found = number(message.cached_found()),
                         .cached_possible = number(message.cached_possible()),
                         .output_lengths = numbers(message.output_lengths())};
  for (const state::OutputClass& each : message.output_classes()) {
    traffic.output_classes.push_back(
        {.key = each.key(), .outputs = number(each.outputs()), .mean = number(each.mean())});
  }
  return traffic;
}

std::vector<AffinityTable::Saved> read(const state::Sessions& message) {
  std::vector<AffinityTable::Saved> sessions;
  const int count = std::min({message.keys_size(), message.tags_size(), message.idle_seconds_size(),
                              message.confirmed_size()});
  sessions.reserve(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) {
    sessions.push_back({.key = message.keys(i),
                        .tag = message.tags(i),
                        .idle = std::chrono::seconds(message.idle_seconds(i)),
                        .confirmed = message.confirmed(i)});
  }
  return sessions;
}

void read(const state::Backend& message, SavedState& state) {
  const SavedState::Key key(message.pool(), message.id());
  if (message.drained()) state.drained.insert(key);
  if (message.has_drain_end_ms()) state.drain_ends[key] = time_of(message.drain_end_ms());
  if (message.has_weight()) {
    state.weights[key] = {message.weight().weight(), message.weight().configured()};
  }
  if (!message.address().empty()) state.addresses[key] = message.address();
  if (message.has_observed()) state.observed[key] = read(message.observed());
  if (message.has_engine()) state.engines[key] = read(message.engine());
}

}  // namespace

std::string to_bytes(const SavedState& state) {
  state::State message;
  Parts parts(message);
  message.set_saved_at_ms(ms(state.saved_at));
  for (const SavedState::Key& key : state.drained) parts.backend(key).set_drained(true);
  for (const auto& [key, end] : state.drain_ends) parts.backend(key).set_drain_end_ms(ms(end));
  for (const auto& [key, weight] : state.weights) {
    state::Weight& part = *parts.backend(key).mutable_weight();
    part.set_weight(weight.weight);
    part.set_configured(weight.configured);
  }
  for (const auto& [key, address] : state.addresses) parts.backend(key).set_address(address);
  for (const auto& [key, each] : state.observed) {
    write(each, *parts.backend(key).mutable_observed());
  }
  for (const auto& [key, each] : state.engines) write(each, *parts.backend(key).mutable_engine());
  for (const auto& [pool, each] : state.traffic) write(each, *parts.pool(pool).mutable_traffic());
  for (const auto& [pool, each] : state.sessions) write(each, *parts.pool(pool).mutable_sessions());
  for (const TokenEstimates::Learned& each : state.tokenizers) {
    state::Tokenizer& part = *message.add_tokenizers();
    part.set_model(each.model);
    part.set_bytes_per_token(each.bytes_per_token);
    part.set_rough(each.rough);
  }
  for (const QuotaTable::Saved& each : state.quotas) {
    state::Quota& part = *message.add_quotas();
    part.set_key(each.key);
    part.set_value(each.value);
  }
  for (const auto& [key, verdict] : state.ended_trials) {
    state::Trial& part = *message.add_ended_trials();
    part.set_key(key);
    part.set_too_slow(verdict == CanaryVerdict::too_slow);
  }
  std::string bytes(first_words);
  bytes.append(checksum_digits, ' ').append("\n");
  const std::size_t head = bytes.size();
  message.AppendToString(&bytes);
  return bytes.replace(first_words.size(), checksum_digits,
                       checksum(std::string_view(bytes).substr(head)));
}

Result<SavedState> parse_state(std::string_view bytes) {
  if (!bytes.starts_with(first_words)) return failure("it has another format");
  bytes.remove_prefix(first_words.size());
  const std::string_view expected = bytes.substr(0, checksum_digits);
  bytes.remove_prefix(std::min(bytes.size(), checksum_digits + 1));
  state::State message;
  if (expected != checksum(bytes) ||
      !message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return failure("it is damaged");
  }
  SavedState state{.saved_at = time_of(message.saved_at_ms())};
  for (const state::Backend& each : message.backends()) read(each, state);
  for (const state::Pool& each : message.pools()) {
    if (each.has_traffic()) state.traffic[each.name()] = read(each.traffic());
    auto sessions = read(each.sessions());
    if (!sessions.empty()) state.sessions[each.name()] = std::move(sessions);
  }
  for (const state::Tokenizer& each : message.tokenizers()) {
    state.tokenizers.push_back({.model = each.model(),
                                .bytes_per_token = number(each.bytes_per_token()),
                                .rough = each.rough()});
  }
  for (const state::Quota& each : message.quotas())
    state.quotas.push_back({.key = each.key(), .value = each.value()});
  for (const state::Trial& each : message.ended_trials()) {
    state.ended_trials[each.key()] =
        each.too_slow() ? CanaryVerdict::too_slow : CanaryVerdict::too_many_errors;
  }
  return state;
}

}  // namespace evenkeel
