// The rule of the scheduler; scheduler.h has its formula, bench/results/picking-replay.md what each
// part is worth.
#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>
#include <utility>

#include "evenkeel/base/rng.h"
#include "scheduler/cost_parts.h"
#include "scheduler/scheduler_state.h"

namespace evenkeel {
namespace {

constexpr std::size_t max_pass = 48;       // requests
constexpr std::size_t pass_budget = 4096;  // of requests times backends
constexpr double ageing = 0.5;             // seconds of service that a second of waiting is worth
constexpr double gpu_price = 0.5;          // kappa: of a second of prefill, which all wait for
constexpr double violation_price = 2;      // nu: seconds for one expected violation
constexpr double decode_price = 0.1;       // delta
constexpr double tie_ratio = 0.05;
constexpr double tie_seconds = 0.002;
constexpr double session_ratio = 0.15;  // a session stays where it costs no more than that above
constexpr double session_seconds = 0.01;
constexpr double session_violations = 0.1;  // expected
// A request is held while X > held_from + held_per_budget * x, x the share of its TTFT budget.
constexpr double held_from = 0.5;
constexpr double held_per_budget = 2;
constexpr double max_held_budget = 0.6;
constexpr double reconsidered_after = 0.01;   // seconds that a request is held for the same reason
constexpr std::size_t always_considered = 4;  // requests, at each pass
constexpr double max_held_prefill = 2;        // seconds: longer ones disturb whenever they start
constexpr std::size_t careful_requests = 5;   // a new backend computes one prompt at a time
constexpr double max_untried_uncached = 2;    // times the tokens of the cheapest backend
constexpr double max_untried_loss = 0.25;     // of the TTFT target
constexpr double unknown_load = 1;            // seconds: of a few hundred megabytes from a disk

double max_wait_of(const EngineSpeed& speed) {
  return std::clamp(2 * speed.coefficients().step, 0.02, 0.15);
}

bool is_new(const BackendLedger& ledger) { return ledger.finished() < careful_requests; }

bool is_new_and_busy(const BackendLedger& ledger) {
  return is_new(ledger) && ledger.computes_prompts();
}

}  // namespace

void SchedulingPass::run() {
  state_.placements.clear();
  if (state_.waiting == 0) return;
  mean_output_ = state_.lengths.mean();
  look_at_backends();
  if (state_.options.config.shed > 0) refuse_late();
  if (state_.waiting == 0 || !any_ready()) return;

  put_in_order();
  std::size_t budget = std::clamp<std::size_t>(pass_budget / state_.candidates.size(), 8, max_pass);
  bool has_placed = false;  // so that others may not be ready any more
  for (std::size_t looked = 0; budget > 0 && (!has_placed || any_ready()); ++looked) {
    const auto turn = next_turn();
    if (!turn) break;
    ScheduledRequest& request = state_.request(turn->entry.ticket);
    if (lacks_room(request)) continue;
    --budget;
    others_are_late_ = last_late_tenant_.value_or(request.tenant) != request.tenant &&
                       turn->turn() <= last_late_turn_;
    // The first may go elsewhere too, before others take it.
    if (looked >= always_considered && stays_held(request)) continue;
    place(request);
    has_placed = true;
  }
  keep_lines();
}

double Scheduler::State::rank_of(const ScheduledRequest& request) {
  return request.least_prefill + ageing * request.arrived_at;
}

/// True if the backend that the request was held for has not changed. Most events change one
/// backend, while many requests wait: estimating them all each time would cost more than they do.
bool SchedulingPass::stays_held(const ScheduledRequest& request) {
  if (request.held_for == Scheduler::no_backend || now_ - request.held_at > reconsidered_after) {
    return false;
  }
  const ScheduledBackend& backend = state_.backends[request.held_for];
  if (backend.state == SlotState::out) return false;
  Candidate& candidate = state_.candidates[backend.candidate];
  if (ready(candidate) && backend.events != request.held_events) return false;
  candidate.promised += request.held_prefill;
  return true;
}

/// True if the request found too little room in all KV caches, and there is no more now: many such
/// prompts do not keep others from being looked at.
bool SchedulingPass::lacks_room(const ScheduledRequest& request) const {
  return request.needs_room > 0 && request.needs_room >= max_room_ &&
         now_ - request.arrived_at < max_held_age;
}

/// Starts the request, or holds it for the backend that is the cheapest now.
void SchedulingPass::place(ScheduledRequest& request) {
  request.held_for = Scheduler::no_backend;
  request.needs_room = 0;
  find_usable(request);
  estimate(request);
  while (Candidate* const chosen = cheapest(request)) {
    const auto held_by = reason_to_hold(request, *chosen);
    const bool starts = !held_by && (capacity_ == nullptr || capacity_->try_acquire(chosen->slot));
    if (held_by || starts) {
      if (request.decision != nullptr) [[unlikely]]
        record(request, chosen, held_by);
      if (starts) return start(request, *chosen);
      if (held_by == HeldBy::memory) note_need(request);
      state_.repriced.push_back(request.ticket);
      return hold(request, *chosen);
    }
    chosen->state = SlotState::full;
    chosen->cost = std::numeric_limits<double>::infinity();
  }
  state_.repriced.push_back(request.ticket);
  if (request.decision != nullptr) [[unlikely]]
    record(request, nullptr, HeldBy::usable);
}

void SchedulingPass::note_need(ScheduledRequest& request) const {
  request.needs_room = request.entry.prompt_tokens;
  for (const Candidate& each : state_.candidates) {
    if (each.usable) request.needs_room = std::min(request.needs_room, each.uncached);
  }
}

void SchedulingPass::hold(ScheduledRequest& request, Candidate& candidate) const {
  candidate.promised += candidate.prefill;
  request.held_for = candidate.slot;
  request.held_at = now_;
  request.held_events = state_.backends[candidate.slot].events;
  request.held_prefill = candidate.prefill;
}

/// The backends that the request may go to now. One that is avoided takes it if all others are too.
void SchedulingPass::find_usable(const ScheduledRequest& request) {
  bool has_good = false;
  for (Candidate& each : state_.candidates) {
    each.usable = request.may_use(each.slot);
    if (!each.usable) continue;
    has_good |= each.state == SlotState::open || each.state == SlotState::full;
  }
  for (Candidate& each : state_.candidates) {
    switch (each.state) {
      case SlotState::open: break;
      case SlotState::avoided: each.usable &= !has_good; break;
      case SlotState::full:
      case SlotState::out: each.usable = false; break;
    }
  }
}

void SchedulingPass::look_at_backends() {
  state_.candidates.clear();
  has_untried_ = false;
  least_step_ = std::numeric_limits<double>::infinity();
  max_room_ = 0;
  double loads = 0;
  double known_loads = 0;
  for (std::uint32_t slot = 0; slot < state_.used_slots; ++slot) {
    ScheduledBackend& backend = state_.backends[slot];
    if (backend.state == SlotState::out) continue;
    backend.ledger.advance(now_);
    const EngineSpeed& speed = backend.ledger.speed();
    const double step = backend.ledger.step_seconds();
    least_step_ = std::min(least_step_, step);
    if (const auto load = backend.ledger.load_seconds()) {
      loads += *load;
      ++known_loads;
    }
    backend.candidate = static_cast<std::uint32_t>(state_.candidates.size());
    const double kv_tokens = backend.ledger.kv_tokens();
    state_.candidates.push_back(
        {.slot = slot,
         .identity = backend.facts.identity,
         .wait = backend.ledger.wait_seconds(now_),
         .use = backend.ledger.memory_use(mean_output_),
         .max_wait = max_wait_of(speed),
         .use_per_token = kv_tokens > 0 ? 1 / kv_tokens : 0,
         .decode_step = step + speed.coefficients().per_stream * (backend.ledger.streams() + 1),
         .step_per_context_token = speed.coefficients().per_context_token,
         .prefill_speed = speed.prefill(step),
         .is_new_and_busy = is_new_and_busy(backend.ledger),
         .is_new_and_idle = is_new(backend.ledger) && backend.ledger.idle(),
         .takes_one_more = backend.ledger.takes_one_more(now_),
         .state = backend.state});
    has_untried_ |= state_.candidates.back().is_new_and_idle;
    const bool takes_any = kv_tokens <= 0 || backend.ledger.idle();
    const double room = (1 - state_.candidates.back().use) * kv_tokens;
    max_room_ = std::max(max_room_, takes_any ? std::numeric_limits<double>::infinity() : room);
  }
  usual_load_ = known_loads > 0 ? loads / known_loads : unknown_load;
  slack_refresh_ = std::clamp(5e-5 * static_cast<double>(state_.candidates.size()), 0.005, 0.05);
}

bool SchedulingPass::ready(const Candidate& candidate) const {
  if (candidate.state == SlotState::full) return false;
  return candidate.takes_one_more ||
         (candidate.wait < candidate.max_wait && !candidate.is_new_and_busy);
}

bool SchedulingPass::any_ready() const {
  return std::any_of(state_.candidates.begin(), state_.candidates.end(),
                     [this](const Candidate& each) { return ready(each); });
}

double SchedulingPass::decode_seconds(const ScheduledRequest& request, double step) const {
  if (!std::isfinite(step)) return 0;  // no backend is in rotation
  return state_.lengths.remaining(request.entry.output_class, 0) * step;
}

void SchedulingPass::price_adapter(const ScheduledRequest& request, Candidate& candidate) const {
  candidate.load = candidate.eviction = 0;
  if (request.adapter == 0) return;
  const ScheduledBackend& backend = state_.backends[candidate.slot];
  if (backend.adapters.has(request.adapter)) return;
  candidate.load = backend.ledger.load_seconds().value_or(usual_load_);
  candidate.eviction = candidate.load * backend.adapters.displaces(now_);
}

/// All of the cost but X.
void SchedulingPass::estimate(ScheduledRequest& request) {
  state_.index.match(request.blocks, state_.depths);
  const double tokens = request.entry.prompt_tokens;
  const double age = now_ - request.arrived_at;
  const double per_target = 1 / request.ttft_target;
  output_ = state_.lengths.remaining(request.entry.output_class, 0);
  std::uint32_t common = ~std::uint32_t{0};
  double least_prefill = std::numeric_limits<double>::infinity();
  for (Candidate& each : state_.candidates) {
    each.cost = std::numeric_limits<double>::infinity();
    if (!each.usable) continue;
    const std::uint32_t depth = state_.depths[each.slot];
    common = std::min(common, depth);
    const double matched = std::min(depth * request.tokens_per_block, tokens - 1);
    const double behind = depth == 0 ? 0 : Scheduler::State::behind_match(request, matched);
    each.cached = std::min(matched + state_.remainder.of(behind), tokens - 1);
    each.uncached = tokens - each.cached;
    price_adapter(request, each);
    each.prefill = each.prefill_speed.seconds(each.uncached, each.cached) + each.load;
    least_prefill = std::min(least_prefill, each.prefill);

    const CostParts parts = parts_of(each, tokens, age, per_target, output_, least_step_);
    each.cost = parts.ttft + parts.lateness + gpu_price * each.prefill +
                decode_price * parts.decode + parts.memory + each.eviction;
    each.violations = others_are_late_ ? 0 : -1;
  }
  if (std::isfinite(least_prefill)) request.least_prefill = least_prefill;
  // The block behind what all backends have; the first one is often the same for all requests.
  if (request.blocks.empty()) {
    tie_key_ = std::bit_cast<std::uint64_t>(request.arrived_at);  // as good as random
  } else {
    tie_key_ =
        request.blocks[std::min<std::size_t>(std::max(common, 1u), request.blocks.size() - 1)];
  }
}

double SchedulingPass::violations(Candidate& candidate) {
  if (candidate.violations < 0) {
    candidate.violations = state_.backends[candidate.slot].ledger.violations(
        candidate.prefill, state_.lengths, now_, slack_refresh_);
    candidate.cost += violation_price * candidate.violations;
  }
  return candidate.violations;
}

bool SchedulingPass::within_tie(double cost, double least) const {
  return cost <= least + std::abs(least) * tie_ratio + tie_seconds;
}

/// Returns null if the request may go nowhere now. X is at least 0, so what costs more without it
/// than the best costs with it is not looked at.
SchedulingPass::Candidate* SchedulingPass::cheapest(const ScheduledRequest& request) {
  auto& candidates = state_.candidates;
  Candidate* best =
      &*std::min_element(candidates.begin(), candidates.end(),
                         [](const Candidate& a, const Candidate& b) { return a.cost < b.cost; });
  if (!std::isfinite(best->cost)) return nullptr;
  violations(*best);
  for (Candidate& each : candidates) {
    if (!within_tie(each.cost, best->cost)) continue;
    violations(each);
    if (each.cost < best->cost) best = &each;
  }
  const double least = best->cost;
  std::pair<bool, std::uint64_t> highest{};
  for (Candidate& each : candidates) {
    if (each.violations < 0 || !within_tie(each.cost, least)) continue;
    // Where it can start now is better than where it would wait at the same cost.
    const std::pair rank(!reason_to_hold(request, each), mix(tie_key_ ^ each.identity));
    if (rank < highest) continue;
    highest = rank;
    best = &each;
  }
  if (Candidate* const home = home_of(request, least)) best = home;
  return has_untried_ ? untried_or(request, *best) : best;
}

/// The backend of the request's session, if that costs little more than `least` and the request
/// breaks no stream there: its next turns will find their prefix there too, and a second copy
/// elsewhere takes the room of others. Else null.
SchedulingPass::Candidate* SchedulingPass::home_of(const ScheduledRequest& request, double least) {
  if (request.preferred == Arrival::any_slot) return nullptr;
  const ScheduledBackend& backend = state_.backends[request.preferred];
  if (backend.state == SlotState::out) return nullptr;
  Candidate& home = state_.candidates[backend.candidate];
  const double most = least + std::abs(least) * session_ratio + session_seconds;
  if (home.cost > most || violations(home) > session_violations) return nullptr;
  return home.cost <= most ? &home : nullptr;
}

/// The price of a backend that has hardly answered yet is a guess, which could keep it from ever
/// being tried. So it gets its first requests, one at a time, where little is lost by that.
SchedulingPass::Candidate* SchedulingPass::untried_or(const ScheduledRequest& request,
                                                      Candidate& best) {
  if (best.is_new_and_idle || request.excluded_count > 0) return &best;
  Candidate* untried = nullptr;
  for (Candidate& each : state_.candidates) {
    if (!each.is_new_and_idle || !std::isfinite(each.cost) || each.state != SlotState::open ||
        each.load > best.load) {
      continue;
    }
    const bool loses_little = each.uncached <= max_untried_uncached * best.uncached ||
                              each.prefill - best.prefill <= max_untried_loss * request.ttft_target;
    if (loses_little && (untried == nullptr || each.cost < untried->cost)) untried = &each;
  }
  if (untried == nullptr) return &best;
  violations(*untried);
  return untried;
}

/// Returns nothing if the request may start there now.
std::optional<HeldBy> SchedulingPass::reason_to_hold(const ScheduledRequest& request,
                                                     const Candidate& candidate) const {
  const BackendLedger& ledger = state_.backends[candidate.slot].ledger;
  if (ledger.idle()) return std::nullopt;
  if (!ready(candidate)) {
    const bool soon = candidate.state != SlotState::full && candidate.wait < candidate.max_wait;
    return soon ? HeldBy::learning : HeldBy::backlog;
  }
  const double age = now_ - request.arrived_at;
  // What does not fit goes then too: short prompts would take its memory for ever. The engine
  // keeps it until it has room, and gets nothing behind it meanwhile.
  if (age >= max_held_age) return std::nullopt;
  if (ledger.kv_tokens() > 0 && candidate.use + candidate.uncached / ledger.kv_tokens() >= 1) {
    return HeldBy::memory;
  }
  const double budget = (age + candidate.wait + candidate.prefill) / request.ttft_target;
  const bool starts = budget >= max_held_budget || candidate.prefill >= max_held_prefill ||
                      candidate.violations <= held_from + held_per_budget * budget;
  return starts ? std::nullopt : std::optional(HeldBy::streams);
}

/// What a token of each of its outputs adds to the step in which it is made, in seconds.
double SchedulingPass::added_per_token(const ScheduledRequest& request,
                                       const ScheduledBackend& backend) {
  const EngineSpeed::Coefficients& speed = backend.ledger.speed().coefficients();
  return request.choices *
         (speed.per_stream + speed.per_context_token * request.entry.prompt_tokens);
}

void SchedulingPass::start(ScheduledRequest& request, Candidate& candidate) {
  ScheduledBackend& backend = state_.backends[candidate.slot];
  state_.placements.push_back({.ticket = request.ticket,
                               .backend = candidate.slot,
                               .predicted_ttft = duration_of(candidate.wait + candidate.prefill),
                               .prefill = duration_of(candidate.prefill),
                               .decode = duration_of(output_ * candidate.decode_step)});
  TenantCounter& tenant = state_.tenant(request.tenant);
  request.seconds_per_output_token = added_per_token(request, backend);
  request.output_charge = output_ * request.seconds_per_output_token;
  const double own_steps =
      candidate.prefill_speed.steps_of(candidate.uncached) * candidate.prefill_speed.step;
  state_.placements.back().work =
      duration_of(std::max(0.0, candidate.prefill - own_steps) + request.output_charge);
  tenant.served += (candidate.prefill + request.output_charge) / request.tenant_weight;
  state_.last_served = tenant.served;

  ++backend.events;
  request.backend = candidate.slot;
  request.entry.uncached = candidate.uncached;
  request.entry.cached = candidate.cached;
  request.whole_blocks_cached =
      std::min(state_.depths[candidate.slot] * request.tokens_per_block, candidate.cached);
  request.entry.load_seconds = candidate.load;
  request.entry.prefill_seconds = candidate.prefill;
  if (request.adapter != 0) backend.adapters.used(request.adapter, now_);
  backend.ledger.dispatched(request.entry, now_);
  state_.size_index(candidate.slot, request);
  state_.index.add(candidate.slot, request.blocks);
  candidate.wait += candidate.prefill;
  candidate.is_new_and_busy = is_new_and_busy(backend.ledger);
  candidate.is_new_and_idle = false;
  candidate.takes_one_more = false;
  if (backend.ledger.kv_tokens() > 0) {
    candidate.use += candidate.uncached / backend.ledger.kv_tokens();
  }
}

}  // namespace evenkeel
