#include "admin/sample_history.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "evenkeel/admin/reported_state.h"
#include "evenkeel/json/writer.h"
#include "evenkeel/stats/fault_labels.h"

namespace evenkeel {
namespace {

constexpr std::size_t window_seconds = 10;
constexpr float unknown = std::numeric_limits<float>::quiet_NaN();
constexpr float ratio_steps = 200;
constexpr std::uint8_t unknown_ratio = 255;

std::uint8_t packed_ratio(double ratio) {
  if (!std::isfinite(ratio)) return unknown_ratio;
  return static_cast<std::uint8_t>(std::lround(std::clamp(ratio, 0.0, 1.0) * ratio_steps));
}

float ratio_of(std::uint8_t packed) {
  return packed == unknown_ratio ? unknown : static_cast<float>(packed) / ratio_steps;
}

float seconds_or_unknown(const std::optional<Duration>& duration) {
  return duration ? static_cast<float>(seconds_of(*duration)) : unknown;
}

std::uint8_t number_of_state(std::string_view state) {
  return static_cast<std::uint8_t>(std::ranges::find(backend_states, state) -
                                   std::begin(backend_states));
}

/// True if a backend in this state may have requests, so that its values belong to its share.
bool takes_part(std::uint8_t state) {
  return backend_states[state] == "up" || backend_states[state] == "draining";
}

float known_or_unknown(const std::optional<double>& value) {
  return value ? static_cast<float>(*value) : unknown;
}

using BackendMetric = std::pair<std::string_view, float (*)(const BackendSample&)>;
constexpr BackendMetric backend_metrics[] = {
    {"in_flight", [](const BackendSample& each) { return each.in_flight; }},
    {"picks_per_second", [](const BackendSample& each) { return each.picks; }},
    {"errors_per_second", [](const BackendSample& each) { return each.errors; }},
    {"running", [](const BackendSample& each) { return each.running; }},
    {"waiting", [](const BackendSample& each) { return each.waiting; }},
    {"kv_cache_ratio", [](const BackendSample& each) { return ratio_of(each.kv_cache); }},
    {"gpu_utilization_ratio",
     [](const BackendSample& each) { return ratio_of(each.gpu_utilization); }},
    {"gpu_memory_ratio", [](const BackendSample& each) { return ratio_of(each.gpu_memory); }},
    {"ttft_seconds", [](const BackendSample& each) { return each.ttft; }},
    {"tpot_seconds", [](const BackendSample& each) { return each.tpot; }},
};

using DaemonMetric = std::pair<std::string_view, float DaemonSample::*>;
constexpr DaemonMetric daemon_metrics[] = {
    {"requests_per_second", &DaemonSample::requests},
    {"errors_per_second", &DaemonSample::errors},
    {"in_flight", &DaemonSample::in_flight},
    {"waiting", &DaemonSample::waiting},
    {"output_tokens_per_second", &DaemonSample::output_tokens},
    {"ttft_p50_seconds", &DaemonSample::ttft_p50},
    {"ttft_p95_seconds", &DaemonSample::ttft_p95},
    {"ttft_p99_seconds", &DaemonSample::ttft_p99},
};

/// The means of the values that belong to each step of a document.
class Steps {
 public:
  explicit Steps(std::size_t count) : sums_(count, 0), counts_(count, 0) {}

  void add(std::size_t step, float value) {
    if (!std::isfinite(value)) return;
    sums_[step] += value;
    ++counts_[step];
  }
  void append_to(std::string& out) const {
    out += '[';
    for (std::size_t i = 0; i < sums_.size(); ++i) {
      if (i > 0) out += ',';
      if (counts_[i] == 0) {
        out += "null";
      } else {
        fmt::format_to(std::back_inserter(out), "{:.4g}", sums_[i] / counts_[i]);
      }
    }
    out += ']';
  }

 private:
  std::vector<float> sums_;
  std::vector<std::uint16_t> counts_;
};

void append_row(std::string& out, std::string_view pool, std::string_view id, const Steps& values) {
  out += R"({"pool":)";
  append_json_string(out, pool);
  out += R"(,"id":)";
  append_json_string(out, id);
  out += R"(,"values":)";
  values.append_to(out);
  out += '}';
}

std::size_t bytes_of(const std::vector<std::pair<std::string, std::string>>& names) {
  std::size_t bytes = 0;
  for (const auto& each : names) bytes += sizeof each + each.first.size() + each.second.size();
  return bytes;
}

BackendSample sample_of(const Backend& backend, Instant now) {
  const SharedBackend& shared = backend.shared();
  const LoadSample polled = shared.signals.values();
  const RecentSummary recent = shared.stats.recent_summary(now);
  return {.in_flight = static_cast<float>(shared.slots.in_flight()),
          .running = static_cast<float>(polled.running),
          .waiting = static_cast<float>(polled.waiting),
          .ttft = seconds_or_unknown(recent.first_byte.median),
          .tpot = seconds_or_unknown(recent.per_token.median),
          .kv_cache = packed_ratio(polled.kv_cache_ratio),
          .gpu_utilization = packed_ratio(polled.gpu_utilization_ratio),
          .gpu_memory = packed_ratio(polled.gpu_memory_used_bytes / polled.gpu_memory_total_bytes),
          .state = number_of_state(state_of(backend, now))};
}

}  // namespace

void SampleHistory::sample(const RuntimeView& view, std::chrono::system_clock::time_point time) {
  const std::int64_t second =
      std::chrono::floor<std::chrono::seconds>(time).time_since_epoch().count();
  if (!frames_.empty() && second == frames_.back().second) return;
  forget_from(second);
  documents_.clear();
  if (view.status->pool_set != pool_set_) {
    follow(*view.status->pool_set);
    pool_set_ = view.status->pool_set;
  }
  Frame frame{.second = second, .keys = keys_};
  sample_backends(view, frame);
  sample_daemon(view, frame);
  frame.bytes = frame.backends.size() * sizeof(BackendSample);
  if (frames_.empty() || frames_.back().keys != keys_) frame.bytes += bytes_of(*keys_);
  bytes_ += frame.bytes;
  frames_.push_back(std::move(frame));
  forget_old();
}

/// Makes the keys those of the pool set. Backends that stay keep what is known of them.
void SampleHistory::follow(const PoolSet& pool_set) {
  std::vector<Key> keys;
  for (const PoolSet::PoolEntry& pool : pool_set.pools()) {
    for (const BackendPtr& backend : pool.state->backends()) {
      keys.emplace_back(pool.state->config().name, backend->id());
    }
  }
  if (keys_ != nullptr && *keys_ == keys) return;
  std::map<Key, std::optional<Previous>> known;
  for (std::size_t i = 0; i < previous_.size(); ++i) known[(*keys_)[i]] = previous_[i];
  previous_.clear();
  for (const Key& key : keys) previous_.push_back(known[key]);
  keys_ = std::make_shared<const std::vector<Key>>(std::move(keys));
}

void SampleHistory::sample_backends(const RuntimeView& view, Frame& frame) {
  frame.backends.reserve(keys_->size());
  for (const PoolSet::PoolEntry& pool : view.status->pool_set->pools()) {
    for (const BackendPtr& backend : pool.state->backends()) {
      BackendSample sample = sample_of(*backend, view.now);
      std::optional<Previous>& previous = previous_[frame.backends.size()];
      const Previous current{.picks = backend->slots().picks_total(),
                             .errors = backend->stats().errors_total()};
      if (previous) {
        sample.picks = static_cast<float>(increase(previous->picks, current.picks));
        sample.errors = static_cast<float>(increase(previous->errors, current.errors));
      }
      previous = current;
      frame.backends.push_back(sample);
    }
  }
}

void SampleHistory::sample_daemon(const RuntimeView& view, Frame& frame) {
  totals_.push_back(read_request_totals(*view.runtime.metrics_registry));
  const RequestTotals& now = totals_.back();
  const RequestTotals& before = totals_.size() > 1 ? totals_[totals_.size() - 2] : now;
  const RequestTotals& first = totals_.front();
  frame.errors = now.errors;
  std::uint64_t errors = 0;
  each_fault([&](Fault fault) {
    const auto index = static_cast<std::size_t>(fault);
    if (side_of(fault) != "client") errors += increase(before.errors[index], now.errors[index]);
  });
  std::int64_t in_flight = 0;
  std::int64_t waiting = 0;
  for (const PoolSet::PoolEntry& pool : view.status->pool_set->pools()) {
    in_flight += static_cast<std::int64_t>(pool.state->in_flight());
    waiting += static_cast<std::int64_t>(pool.state->queue().waiting);
  }
  const auto window = static_cast<float>(std::max<std::size_t>(totals_.size() - 1, 1));
  frame.daemon = {
      .requests = static_cast<float>(increase(before.requests, now.requests)),
      .errors = static_cast<float>(errors),
      .in_flight = static_cast<float>(in_flight),
      .waiting = static_cast<float>(waiting),
      .output_tokens =
          now.output_tokens == 0
              ? unknown
              : static_cast<float>(increase(first.output_tokens, now.output_tokens)) / window,
      .ttft_p50 = known_or_unknown(quantile_between(first.first_token, now.first_token, 0.5)),
      .ttft_p95 = known_or_unknown(quantile_between(first.first_token, now.first_token, 0.95)),
      .ttft_p99 = known_or_unknown(quantile_between(first.first_token, now.first_token, 0.99))};
  if (totals_.size() > window_seconds) totals_.pop_front();
}

/// Forgets the frames of this second and later ones.
void SampleHistory::forget_from(std::int64_t second) {
  while (!frames_.empty() && frames_.back().second >= second) {
    bytes_ -= frames_.back().bytes;
    frames_.pop_back();
  }
}

void SampleHistory::forget_old() {
  const std::int64_t oldest = frames_.back().second - static_cast<std::int64_t>(max_seconds);
  while (frames_.size() > 1 && (frames_.front().second <= oldest || bytes_ > max_bytes)) {
    bytes_ -= frames_.front().bytes;
    frames_.pop_front();
  }
}

JsonValue SampleHistory::overview() const {
  if (frames_.empty()) return JsonValue::Object();
  const Frame& last = frames_.back();
  JsonValue::List errors;
  each_fault([&](Fault fault) {
    const auto index = static_cast<std::size_t>(fault);
    const std::uint64_t count = increase(frames_.front().errors[index], last.errors[index]);
    if (count == 0) return;
    errors.emplace_back(JsonValue::Object{
        {"reason", to_string(fault)}, {"side", side_of(fault)}, {"count", count}});
  });
  JsonValue overview;
  overview.add("second", last.second);
  for (const auto& [name, member] : daemon_metrics) {
    overview.add(name, static_cast<double>(last.daemon.*member));
  }
  overview.add("errors", std::move(errors));
  return overview;
}

CompressibleText* SampleHistory::document(std::string_view metric) {
  const auto* const found = std::ranges::find(backend_metrics, metric, &BackendMetric::first);
  if (found == std::end(backend_metrics)) return nullptr;
  const auto [document, is_new] = documents_.try_emplace(found->first);
  if (is_new) document->second = CompressibleText(render(found->first, found->second));
  return &document->second;
}

std::string SampleHistory::render(std::string_view metric,
                                  float (*value)(const BackendSample&)) const {
  const std::size_t count = keys_ == nullptr ? 0 : keys_->size();
  std::map<Key, std::size_t> rows;
  for (std::size_t i = 0; i < count; ++i) rows.emplace((*keys_)[i], i);
  std::size_t step = 1;
  while (count * (max_seconds / step) > max_document_values && step < max_seconds) ++step;
  const std::size_t steps = (max_seconds + step - 1) / step;
  const std::int64_t end = frames_.empty() ? 0 : frames_.back().second + 1;
  const std::int64_t begin = end - static_cast<std::int64_t>(steps * step);
  const std::int64_t daemon_begin = end - static_cast<std::int64_t>(max_seconds);

  std::vector<Steps> values(count, Steps(steps));
  std::vector<Steps> totals(std::size(daemon_metrics), Steps(max_seconds));
  std::vector<std::size_t> places;  // of a frame's backends in `values`; `count`: it has gone since
  BackendKeys keys;
  for (const Frame& frame : frames_) {
    if (frame.keys != keys) {
      keys = frame.keys;
      places.clear();
      for (const Key& key : *keys) {
        const auto row = rows.find(key);
        places.push_back(row == rows.end() ? count : row->second);
      }
    }
    const auto at = static_cast<std::size_t>(frame.second - begin) / step;
    const auto second = static_cast<std::size_t>(frame.second - daemon_begin);
    for (std::size_t i = 0; i < frame.backends.size(); ++i) {
      const BackendSample& sample = frame.backends[i];
      if (places[i] < count && takes_part(sample.state)) values[places[i]].add(at, value(sample));
    }
    for (std::size_t i = 0; i < totals.size(); ++i) {
      totals[i].add(second, frame.daemon.*daemon_metrics[i].second);
    }
  }

  std::string text =
      fmt::format(R"({{"metric":"{}","end":{},"step_seconds":{},"daemon":{{)", metric, end, step);
  for (std::size_t i = 0; i < totals.size(); ++i) {
    if (i > 0) text += ',';
    append_json_string(text, daemon_metrics[i].first);
    text += ':';
    totals[i].append_to(text);
  }
  text += R"(},"backends":[)";
  for (std::size_t i = 0; i < count; ++i) {
    if (i > 0) text += ',';
    append_row(text, (*keys_)[i].first, (*keys_)[i].second, values[i]);
  }
  return text + "]}\n";
}

}  // namespace evenkeel
