#include "scheduler/scheduler_state.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

namespace evenkeel {
namespace {

constexpr std::size_t tenant_count = 4096;
constexpr double batch_patience = 4;      // times that of others
constexpr double shrink = 0.98;           // of an index's capacity, for a predicted hit that missed
constexpr double growth = 1.001;          // for a hit that was confirmed
constexpr double block_smoothing = 0.02;  // of the tokens that a block has on average
constexpr double clear_share = 0.2;       // of the larger of two hits, by which they clearly differ
constexpr double clear_blocks = 2;        // and so many blocks
// The most that a longer output is charged later, in units of what was charged for it.
constexpr double max_correction = 4;

// Targets of requests that have none, when the configuration has none either.
constexpr double prefills_of_ttft = 4;
constexpr double steps_of_ttft = 30;
constexpr double steps_of_tpot = 5;
constexpr double max_default_tpot = 0.1;  // seconds

}  // namespace

Scheduler::State::State(const SchedulerOptions& given)
    : options(given),
      backends(given.slots),
      index(given.slots, given.config.index_bytes),
      tenants(tenant_count),
      depths(given.slots) {
  candidates.reserve(given.slots);
}

void Scheduler::State::free(ScheduledRequest& request) {
  request.backend = no_backend;
  request.decision = nullptr;
  request.blocks.clear();
  free_tickets.push_back(request.ticket);
}

void Scheduler::State::add_waiting(ScheduledRequest& request) {
  auto line =
      std::ranges::find_if(lines, [&](const TenantLine& each) { return each.is_for(request); });
  if (line == lines.end()) {
    line = std::ranges::find_if(lines, [](const auto& each) { return each.entries.empty(); });
    if (line == lines.end()) line = lines.insert(line, TenantLine());
    line->priority = request.priority;
    line->tenant = request.tenant;
    line->allowed = request.allowed;
  }
  request.line = static_cast<std::uint32_t>(line - lines.begin());
  ++waiting;
  insert_in_line(request);
}

void Scheduler::State::insert_in_line(ScheduledRequest& request) {
  request.rank = rank_of(request);
  auto& entries = lines[request.line].entries;
  const TenantLine::Entry entry{request.rank, request.ticket, request.arrived_at};
  entries.insert(std::ranges::upper_bound(entries, entry, std::less<>()), entry);
  if (options.config.shed > 0) next_refusal = std::min(next_refusal, refused_at(request));
}

void Scheduler::State::remove_from_line(const ScheduledRequest& request) {
  auto& entries = lines[request.line].entries;
  const TenantLine::Entry entry{request.rank, request.ticket, request.arrived_at};
  entries.erase(std::ranges::lower_bound(entries, entry, std::less<>()));
}

void Scheduler::State::move_in_line(ScheduledRequest& request) {
  if (rank_of(request) == request.rank) return;
  remove_from_line(request);
  insert_in_line(request);
}

void Scheduler::State::remove_waiting(const ScheduledRequest& request) {
  remove_from_line(request);
  count_leaving(request);
}

void Scheduler::State::count_leaving(const ScheduledRequest& request) {
  TenantCounter& counter = tenant(request.tenant);
  if (counter.waiting > 0) --counter.waiting;
  --waiting;
}

double Scheduler::State::refused_at(const ScheduledRequest& request) const {
  const double patience = request.priority == Priority::batch ? batch_patience : 1;
  return request.arrived_at + options.config.shed * patience * request.ttft_target -
         request.least_prefill;
}

double Scheduler::State::least_served() {
  double least = std::numeric_limits<double>::infinity();
  for (const TenantLine& line : lines) {
    if (!line.entries.empty()) least = std::min(least, tenant(line.tenant).served);
  }
  return least;
}

/// A counter that makes room for another is the one that has had least: a tenant that comes back is
/// lifted to the least of those that wait anyway.
TenantCounter& Scheduler::State::tenant(std::uint64_t key) {
  return tenants.find_or_add(key, [](const TenantCounter& each) {
    return each.waiting > 0 ? std::numeric_limits<double>::infinity() : each.served;
  });
}

void Scheduler::State::settle_output(const ScheduledRequest& request, double tokens) {
  TenantCounter* const counter = tenants.find(request.tenant);
  if (counter == nullptr) return;
  const double difference = tokens * request.seconds_per_output_token - request.output_charge;
  counter->served +=
      std::min(difference, max_correction * request.output_charge) / request.tenant_weight;
}

/// Prompts differ in the tokens of their blocks, so it is the mean that tells how many blocks the
/// cache holds; what was learned of the capacity is kept as it moves.
void Scheduler::State::size_index(std::uint32_t slot, const ScheduledRequest& request) {
  ScheduledBackend& backend = backends[slot];
  if (request.blocks.empty() || request.tokens_per_block <= 0) return;
  const double tokens =
      std::clamp(request.tokens_per_block, min_tokens_per_block, max_tokens_per_block);
  double& mean = backend.tokens_per_block;
  const double before = mean;
  mean = before > 0 ? before + block_smoothing * (tokens - before) : tokens;
  if (backend.facts.kv_tokens == 0) return;
  const bool sized = backend.index_capacity > 0 && before > 0;
  set_index_capacity(slot, sized ? backend.index_capacity * before / mean
                                 : static_cast<double>(backend.facts.kv_tokens) / mean);
}

/// Tokens of prompts are only estimated here, so it is the share of the prompt that counts. And
/// only what differs clearly is missed: text differs from text in its tokens, an engine's blocks
/// from the index's.
void Scheduler::State::learn_hit(const ScheduledRequest& request, const Outcome& outcome) {
  ScheduledBackend& backend = backends[request.backend];
  backend.predicted_cached += request.entry.cached;
  backend.reported_cached += static_cast<double>(*outcome.cached_tokens);
  if (request.blocks.empty()) return;
  const auto counted = static_cast<double>(outcome.prompt_tokens.value_or(0));
  const double scale = counted > 0 ? request.entry.prompt_tokens / counted : 1;
  const double cached = scale * static_cast<double>(*outcome.cached_tokens);
  const double matched = request.whole_blocks_cached;
  const double margin =
      std::max(clear_share * std::max(cached, matched), clear_blocks * request.tokens_per_block);
  if (matched <= 0) {
    if (cached > margin) found_unpredicted(request);
    return;
  }
  const bool missed = cached < matched - std::min(margin, matched / 2);
  const double next_block = behind_match(request, matched);
  if (!missed && next_block >= 1) remainder.learn(next_block, cached - matched);
  if (backend.index_capacity <= 0) {  // an engine that does not tell how large its cache is
    if (!missed) return;
    backend.index_capacity = index.size(request.backend);
  }
  set_index_capacity(request.backend, backend.index_capacity * (missed ? shrink : growth));
}

/// Grows an index that has no room, and so has evicted what the engine still had, as fast as it
/// shrinks, up to what the engine's whole cache would hold. Where others send requests too, they
/// may have brought the prefix.
void Scheduler::State::found_unpredicted(const ScheduledRequest& request) {
  const ScheduledBackend& backend = backends[request.backend];
  const bool is_full = index.size(request.backend) >= index.capacity(request.backend);
  if (backend.index_capacity <= 0 || !is_full || options.config.shared_backends) return;
  const double whole = backend.facts.kv_tokens == 0 ? static_cast<double>(index.max_capacity())
                                                    : static_cast<double>(backend.facts.kv_tokens) /
                                                          backend.tokens_per_block;
  if (backend.index_capacity >= whole) return;
  set_index_capacity(request.backend, std::min(backend.index_capacity / shrink, whole));
}

void Scheduler::State::set_index_capacity(std::uint32_t slot, double blocks) {
  const double capacity = std::clamp(blocks, 1.0, static_cast<double>(index.max_capacity()));
  backends[slot].index_capacity = capacity;
  index.set_capacity(slot, static_cast<std::uint32_t>(capacity));
}

Scheduler::State::Unloaded Scheduler::State::unloaded(double tokens) const {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  Unloaded least{.step = infinity, .prefill = infinity};
  for (const ScheduledBackend& backend : used()) {
    if (!backend.known) continue;
    const BackendLedger& ledger = backend.ledger;
    least.step = std::min(least.step, ledger.speed().step_seconds(0, 0));
    const double prefill = ledger.prefill_seconds(tokens, 0, ledger.step_seconds());
    least.prefill = std::min(least.prefill, prefill);
  }
  if (std::isfinite(least.step) && std::isfinite(least.prefill)) return least;
  // There is no backend yet: as for an engine of which nothing is known.
  const EngineSpeed unknown;
  const double step = unknown.step_seconds(0, 0);
  return {.step = step, .prefill = unknown.prefill_seconds(tokens, 0, step)};
}

double Scheduler::State::default_ttft_target(double idle_step) const {
  const auto configured = options.config.slo.ttft;
  if (configured.count() > 0) return seconds_of(configured);
  return std::max(prefills_of_ttft * mean_prefill, steps_of_ttft * idle_step);
}

double Scheduler::State::default_tpot_target(double idle_step) const {
  const auto configured = options.config.slo.tpot;
  if (configured.count() > 0) return seconds_of(configured);
  return std::min(max_default_tpot, steps_of_tpot * idle_step);
}

}  // namespace evenkeel
