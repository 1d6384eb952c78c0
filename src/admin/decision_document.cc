#include "admin/decision_document.h"

#include <algorithm>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "admin/json_text.h"
#include "evenkeel/balance/decision.h"

namespace evenkeel {
namespace {

namespace json = boost::json;

/// Rounds to millionths: more digits would be noise. Infinite and unknown are null.
json::value number_or_null(double value) {
  if (!std::isfinite(value)) return nullptr;
  return std::round(value * 1e6) / 1e6;
}

json::value seconds(Duration duration) { return number_or_null(seconds_of(duration)); }

json::value seconds_or_null(const std::optional<Duration>& duration) {
  return duration ? seconds(*duration) : json::value();
}

json::value count_or_null(const std::optional<std::uint64_t>& count) {
  return count ? json::value(*count) : json::value();
}

/// Null for no backend, and for one that the pool has no more.
json::value backend_or_null(const ExplainedDecision& explained, std::uint32_t slot) {
  const auto found = explained.backends.find(slot);
  return found == explained.backends.end() ? json::value() : json::value(found->second);
}

const char* to_string(SlotState state) {
  switch (state) {
    case SlotState::out: return "out";
    case SlotState::full: return "full";
    case SlotState::avoided: return "avoided";
    case SlotState::overflow: return "overflow";
    case SlotState::open: return "open";
  }
  return "unknown";
}

/// The parts of a cost that is infinite are not known.
json::object candidate_document(const ExplainedDecision& explained, const CandidateCost& each) {
  const auto part = [&each](double value) {
    return std::isfinite(each.cost) ? number_or_null(value) : json::value();
  };
  json::object document;
  document["backend"] = backend_or_null(explained, each.slot);
  document["state"] = to_string(each.state);
  document["rung"] = to_string(each.rung);
  document["streams"] = number_or_null(each.streams);
  document["cost"] = number_or_null(each.cost);
  document["wait_seconds"] = number_or_null(each.wait);
  document["promised_seconds"] = number_or_null(each.promised);
  document["prefill_seconds"] = part(each.prefill);
  document["load_seconds"] = part(each.load);
  document["eviction_seconds"] = part(each.eviction);
  document["cached_tokens"] = part(std::round(each.cached));
  document["uncached_tokens"] = part(std::round(each.uncached));
  document["lateness"] = part(each.lateness);
  document["violations"] = part(each.violations);
  document["decode_seconds"] = part(each.decode);
  document["memory"] = part(each.memory);
  document["heard_age_seconds"] = number_or_null(each.heard_age);
  document["report_age_seconds"] = number_or_null(each.report_age);
  return document;
}

json::object held_document(const ExplainedDecision& explained) {
  const Decision& decision = explained.decision;
  json::object by;
  double sum = 0;
  for (std::size_t i = 0; i < decision.held_seconds.size(); ++i) {
    const double held = decision.held_seconds[i];
    if (held > 0) by[to_string(static_cast<HeldBy>(i))] = number_or_null(held);
    sum += held;
  }
  json::object document;
  document["seconds"] = number_or_null(sum);
  document["by"] = std::move(by);
  document["for"] = backend_or_null(explained, decision.held_for);
  document["looks"] = decision.looks;
  return document;
}

json::value shadow_document(const ExplainedDecision& explained) {
  const Decision& decision = explained.decision;
  if (decision.shadow == Scheduler::no_backend) return nullptr;
  json::object document;
  document["backend"] = backend_or_null(explained, decision.shadow);
  document["cost"] = number_or_null(decision.shadow_cost);
  document["scheduler_backend"] = backend_or_null(explained, decision.best);
  document["scheduler_cost"] = number_or_null(decision.best_cost);
  return document;
}

json::object predicted_document(const Decision& decision) {
  json::object document;
  document["ttft_seconds"] = seconds(decision.predicted_ttft);
  document["cached_tokens"] = std::round(decision.predicted_cached);
  document["output_tokens"] = std::round(decision.predicted_output);
  return document;
}

json::object outcome_document(const Decision& decision) {
  json::object document;
  document["ttft_seconds"] = seconds_or_null(decision.ttft);
  document["cached_tokens"] = count_or_null(decision.cached);
  document["output_tokens"] = count_or_null(decision.output);
  document["seconds"] = seconds_or_null(decision.took);
  return document;
}

json::object decision_document(const ExplainedDecision& explained, Instant now) {
  const Decision& decision = explained.decision;
  const bool placed = decision.chosen != Scheduler::no_backend;
  const bool over = !placed && decision.fate != Decision::Fate::waits;
  json::array candidates;
  for (std::size_t i = 0; i < decision.candidate_count; ++i) {
    candidates.push_back(candidate_document(explained, decision.candidates[i]));
  }
  json::object document;
  document["age_seconds"] = seconds(now - decision.arrived_at);
  document["state"] = to_string(decision.fate);
  document["backend"] = backend_or_null(explained, decision.chosen);
  document["priority"] = to_string(decision.priority);
  document["prompt_tokens"] = decision.prompt_tokens;
  document["ttft_target_seconds"] = number_or_null(decision.ttft_target);
  document["tpot_target_seconds"] = number_or_null(decision.tpot_target);
  document["prompt_seconds"] = over ? number_or_null(decision.least_prefill) : json::value();
  document["held"] = held_document(explained);
  document["considered"] = decision.considered;
  document["candidates"] = std::move(candidates);
  document["predicted"] = placed ? json::value(predicted_document(decision)) : json::value();
  document["outcome"] = placed ? json::value(outcome_document(decision)) : json::value();
  document["shadow"] = shadow_document(explained);
  return document;
}

}  // namespace

json::array decisions_of(const PoolSet& pool_set, std::string_view request_id, Instant now) {
  struct KeptDecision {
    ExplainedDecision explained;
    std::string_view pool;
    std::size_t place;  // among those of the same time. clang rejects std::stable_sort
  };
  std::vector<KeptDecision> attempts;
  for (const PoolSet::PoolEntry& pool : pool_set.pools()) {
    for (ExplainedDecision& each : pool.state->decisions(request_id)) {
      attempts.push_back({std::move(each), pool.state->spec().name, attempts.size()});
    }
  }
  std::ranges::sort(attempts, {}, [](const KeptDecision& each) {
    return std::pair(each.explained.decision.arrived_at, each.place);
  });
  std::vector<std::uint64_t> requests;  // in order of their first attempts
  json::array documents;
  for (const KeptDecision& each : attempts) {
    const auto request = std::ranges::find(requests, each.explained.decision.request);
    const auto number = request - requests.begin() + 1;
    if (request == requests.end()) requests.push_back(each.explained.decision.request);
    json::object document = decision_document(each.explained, now);
    document["request"] = number;
    document["pool"] = each.pool;
    documents.push_back(std::move(document));
  }
  return documents;
}

}  // namespace evenkeel
