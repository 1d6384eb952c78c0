#include "admin/decision_document.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "evenkeel/scheduler/decision.h"

namespace evenkeel {
namespace {

/// Rounds to millionths: more digits would be noise. Infinite and unknown are null.
JsonValue number_or_null(double value) {
  if (!std::isfinite(value)) return nullptr;
  return std::round(value * 1e6) / 1e6;
}

JsonValue seconds(Duration duration) { return number_or_null(seconds_of(duration)); }

JsonValue seconds_or_null(const std::optional<Duration>& duration) {
  return duration ? seconds(*duration) : JsonValue();
}

/// Null for no backend, and for one that the pool has no more.
JsonValue backend_or_null(const ExplainedDecision& explained, std::uint32_t slot) {
  const auto found = explained.backends.find(slot);
  return found == explained.backends.end() ? JsonValue() : JsonValue(found->second);
}

const char* to_string(SlotState state) {
  switch (state) {
    case SlotState::out: return "out";
    case SlotState::full: return "full";
    case SlotState::avoided: return "avoided";
    case SlotState::open: return "open";
  }
  return "unknown";
}

/// The parts of a cost that is infinite are not known.
JsonValue candidate_document(const ExplainedDecision& explained, const CandidateCost& each) {
  const auto part = [&each](double value) {
    return std::isfinite(each.cost) ? number_or_null(value) : JsonValue();
  };
  JsonValue document;
  document.add("backend", backend_or_null(explained, each.slot));
  document.add("state", to_string(each.state));
  document.add("confidence", to_string(each.confidence));
  document.add("streams", number_or_null(each.streams));
  document.add("cost", number_or_null(each.cost));
  document.add("wait_seconds", number_or_null(each.wait));
  document.add("promised_seconds", number_or_null(each.promised));
  document.add("prefill_seconds", part(each.prefill));
  document.add("load_seconds", part(each.load));
  document.add("eviction_seconds", part(each.eviction));
  document.add("cached_tokens", part(std::round(each.cached)));
  document.add("uncached_tokens", part(std::round(each.uncached)));
  document.add("lateness", part(each.lateness));
  document.add("violations", part(each.violations));
  document.add("decode_seconds", part(each.decode));
  document.add("memory", part(each.memory));
  document.add("heard_age_seconds", number_or_null(each.heard_age));
  document.add("report_age_seconds", number_or_null(each.report_age));
  return document;
}

JsonValue held_document(const ExplainedDecision& explained) {
  const Decision& decision = explained.decision;
  JsonValue by = JsonValue::Object();
  double sum = 0;
  for (std::size_t i = 0; i < decision.held_seconds.size(); ++i) {
    const double held = decision.held_seconds[i];
    if (held > 0) by.add(to_string(static_cast<HeldBy>(i)), number_or_null(held));
    sum += held;
  }
  JsonValue document;
  document.add("seconds", number_or_null(sum));
  document.add("by", std::move(by));
  document.add("for", backend_or_null(explained, decision.held_for));
  document.add("looks", decision.looks);
  return document;
}

JsonValue shadow_document(const ExplainedDecision& explained) {
  const Decision& decision = explained.decision;
  if (decision.shadow == Scheduler::no_backend) return nullptr;
  JsonValue document;
  document.add("backend", backend_or_null(explained, decision.shadow));
  document.add("cost", number_or_null(decision.shadow_cost));
  document.add("scheduler_backend", backend_or_null(explained, decision.best));
  document.add("scheduler_cost", number_or_null(decision.best_cost));
  return document;
}

JsonValue predicted_document(const Decision& decision) {
  JsonValue document;
  document.add("ttft_seconds", seconds(decision.predicted_ttft));
  document.add("cached_tokens", std::round(decision.predicted_cached));
  document.add("output_tokens", std::round(decision.predicted_output));
  return document;
}

JsonValue outcome_document(const Decision& decision) {
  JsonValue document;
  document.add("ttft_seconds", seconds_or_null(decision.ttft));
  document.add("cached_tokens", decision.cached);
  document.add("output_tokens", decision.output);
  document.add("seconds", seconds_or_null(decision.took));
  return document;
}

JsonValue decision_document(const ExplainedDecision& explained, Instant now) {
  const Decision& decision = explained.decision;
  const bool placed = decision.chosen != Scheduler::no_backend;
  const bool over = !placed && decision.state != Decision::State::waits;
  JsonValue::List candidates;
  for (std::size_t i = 0; i < decision.candidate_count; ++i) {
    candidates.push_back(candidate_document(explained, decision.candidates[i]));
  }
  JsonValue document;
  document.add("picker", "expected-time");
  document.add("age_seconds", seconds(now - decision.arrived_at));
  document.add("state", to_string(decision.state));
  document.add("backend", backend_or_null(explained, decision.chosen));
  document.add("priority", to_string(decision.priority));
  document.add("prompt_tokens", decision.prompt_tokens);
  document.add("ttft_target_seconds", number_or_null(decision.ttft_target));
  document.add("tpot_target_seconds", number_or_null(decision.tpot_target));
  document.add("prompt_seconds", over ? number_or_null(decision.least_prefill) : JsonValue());
  document.add("held", held_document(explained));
  document.add("considered", decision.considered);
  document.add("candidates", std::move(candidates));
  document.add("predicted", placed ? JsonValue(predicted_document(decision)) : JsonValue());
  document.add("outcome", placed ? JsonValue(outcome_document(decision)) : JsonValue());
  document.add("shadow", shadow_document(explained));
  return document;
}

}  // namespace

JsonValue::List decisions_of(const PoolSet& pool_set, std::string_view request_id, Instant now) {
  struct KeptDecision {
    ExplainedDecision explained;
    std::string_view pool;
    std::size_t place;  // among those of the same time. clang rejects std::stable_sort
  };
  std::vector<KeptDecision> attempts;
  for (const PoolSet::PoolEntry& pool : pool_set.pools()) {
    if (pool.state->scheduled() == nullptr) continue;
    for (ExplainedDecision& each : pool.state->scheduled()->decisions(request_id)) {
      attempts.push_back({std::move(each), pool.state->config().name, attempts.size()});
    }
  }
  std::ranges::sort(attempts, {}, [](const KeptDecision& each) {
    return std::pair(each.explained.decision.arrived_at, each.place);
  });
  std::vector<std::uint64_t> requests;  // in order of their first attempts
  JsonValue::List documents;
  for (const KeptDecision& each : attempts) {
    const auto request = std::ranges::find(requests, each.explained.decision.request);
    const auto number = request - requests.begin() + 1;
    if (request == requests.end()) requests.push_back(each.explained.decision.request);
    JsonValue document = decision_document(each.explained, now);
    document.add("request", number);
    document.add("pool", each.pool);
    documents.push_back(std::move(document));
  }
  return documents;
}

}  // namespace evenkeel
