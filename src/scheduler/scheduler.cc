#include "evenkeel/scheduler/scheduler.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <limits>

#include "evenkeel/base/hash.h"
#include "scheduler/scheduler_state.h"

namespace evenkeel {
namespace {

constexpr double timer_seconds = 0.02;
constexpr double new_backend_caution = 1.5;   // times the others' coefficients
constexpr std::size_t warm_samples = 20;      // of prefills
constexpr double smoothing = 0.05;            // of the shares that the confidences are made of
constexpr double least_slack_of_prefill = 2;  // a target is at least twice the unloaded prefill

std::uint64_t output_class_of(const Arrival& arrival) {
  const auto& blocks = arrival.prefix_blocks;
  if (!blocks.empty()) return hash_of(blocks[0], blocks.size() > 1 ? blocks[1] : 0);
  return static_cast<std::uint64_t>(std::bit_width(arrival.max_tokens)) + 1;
}

double seconds_or(const std::optional<Duration>& given, double otherwise) {
  return given ? seconds_of(*given) : otherwise;
}

void begin_record(const ScheduledRequest& request, Instant now) {
  Decision& decision = *request.decision;
  decision.arrived_at = now;
  decision.held_since = request.arrived_at;
  decision.priority = request.priority;
  decision.prompt_tokens = static_cast<std::uint32_t>(request.entry.prompt_tokens);
  decision.ttft_target = request.ttft_target;
  decision.tpot_target = request.entry.tpot_target;
}

/// The end of the record of one that waits no more.
void record_leaving(const ScheduledRequest& request, Instant now) {
  Decision& decision = *request.decision;
  note_hold(decision, decision.held_by, seconds_since_epoch(now));
  decision.state = Decision::State::left;
  decision.waited = duration_of(seconds_since_epoch(now) - request.arrived_at);
  decision.least_prefill = request.least_prefill;
}

/// Moves a share towards 1 or 0.
void count_share(double& share, bool is_so) { share += smoothing * ((is_so ? 1 : 0) - share); }

}  // namespace

const char* to_string(Confidence confidence) {
  switch (confidence) {
    case Confidence::confirmed: return "confirmed";
    case Confidence::assumed_hits: return "assumed_hits";
    case Confidence::unseen_first_tokens: return "unseen_first_tokens";
    case Confidence::unknown_prompts: return "unknown_prompts";
    case Confidence::cold: return "cold";
  }
  return "unknown";
}

// ---- Backends ----

Scheduler::Scheduler(const SchedulerOptions& options) : state_(std::make_unique<State>(options)) {}

void Scheduler::configure(const SchedulerOptions& options) {
  const auto slots = state_->options.slots;
  const auto index_bytes = state_->options.config.index_bytes;
  state_->options = options;
  state_->options.slots = slots;
  state_->options.config.index_bytes = index_bytes;
  state_->next_refusal = 0;
}

Scheduler::~Scheduler() = default;

void Scheduler::add_backend(std::uint32_t slot, const EngineFacts& facts) {
  EngineSpeed::Coefficients sum{0, 0, 0, 0, 0};
  double warm = 0;
  for (const ScheduledBackend& other : state_->used()) {
    if (!other.known || other.ledger.speed().prefill_samples() < warm_samples) continue;
    const auto& speed = other.ledger.speed().coefficients();
    sum.step += speed.step;
    sum.per_stream += speed.per_stream;
    sum.per_context_token += speed.per_context_token;
    sum.per_prefill_token += speed.per_prefill_token;
    sum.per_attention_pair += speed.per_attention_pair;
    ++warm;
  }
  EngineSpeed::Coefficients prior;
  if (warm > 0) {
    // Never 0: a coefficient without a spread would never be learned.
    const auto mean = [warm](double total, double fallback) {
      return std::max(new_backend_caution * total / warm, fallback / 100);
    };
    prior = {.step = mean(sum.step, prior.step),
             .per_stream = mean(sum.per_stream, prior.per_stream),
             .per_context_token = mean(sum.per_context_token, prior.per_context_token),
             .per_prefill_token = mean(sum.per_prefill_token, prior.per_prefill_token),
             .per_attention_pair = mean(sum.per_attention_pair, prior.per_attention_pair)};
  }
  ScheduledBackend& backend = state_->backends[slot];
  assert(backend.ledger.in_flight() == 0);
  state_->used_slots = std::max(state_->used_slots, slot + 1);
  backend.facts = facts;
  backend.known = true;
  backend.state = SlotState::open;
  backend.adapters.clear();
  backend.index_capacity = 0;
  backend.tokens_per_block = 0;
  backend.confirms_hits = 0;
  backend.predicted_cached = 0;
  backend.reported_cached = 0;
  backend.streams = backend.has_blocks = 1;
  backend.heard_at = backend.reported_at = -std::numeric_limits<double>::infinity();
  backend.ledger.reset(prior, facts.step_tokens, static_cast<double>(facts.kv_tokens));
  state_->index.clear(slot);
  state_->index.set_capacity(slot, state_->index.max_capacity());
}

void Scheduler::remove_backend(std::uint32_t slot) {
  ScheduledBackend& backend = state_->backends[slot];
  assert(backend.ledger.in_flight() == 0);
  backend.known = false;
  backend.state = SlotState::out;
  while (state_->used_slots > 0 && !state_->backends[state_->used_slots - 1].known) {
    --state_->used_slots;
  }
  state_->index.clear(slot);
}

void Scheduler::describe(std::uint32_t slot, std::uint64_t kv_tokens, std::uint32_t step_tokens) {
  ScheduledBackend& backend = state_->backends[slot];
  if (kv_tokens != 0 && kv_tokens != backend.facts.kv_tokens) {
    backend.facts.kv_tokens = kv_tokens;
    backend.index_capacity = 0;  // derived anew
  }
  if (step_tokens != 0) backend.facts.step_tokens = step_tokens;
  backend.ledger.describe(backend.facts.step_tokens, static_cast<double>(backend.facts.kv_tokens));
}

void Scheduler::set_state(std::uint32_t slot, SlotState state) {
  state_->backends[slot].state = state_->backends[slot].known ? state : SlotState::out;
}

void Scheduler::adapters(std::uint32_t slot, std::span<const std::uint64_t> held,
                         std::uint32_t slots, Instant as_of) {
  state_->backends[slot].adapters.reported(held, slots, seconds_since_epoch(as_of));
}

void Scheduler::backend_cleared(std::uint32_t slot) {
  state_->index.clear(slot);
  state_->backends[slot].adapters.clear();
}

void Scheduler::polled(std::uint32_t slot, const LoadSample& report, Instant now,
                       std::optional<std::uint32_t> in_flight_at_poll) {
  state_->backends[slot].reported_at = seconds_since_epoch(now);
  if (!state_->options.config.shared_backends) return;
  BackendLedger& ledger = state_->backends[slot].ledger;
  const std::size_t own = in_flight_at_poll ? *in_flight_at_poll : ledger.in_flight();
  ledger.polled(report, static_cast<double>(own), seconds_since_epoch(now));
}

// ---- Requests ----

Scheduler::Ticket Scheduler::arrive(const Arrival& arrival, Instant now) {
  State& state = *state_;
  if (state.free_tickets.empty()) {
    const auto ticket = static_cast<Ticket>(state.requests.size());
    state.requests.emplace_back().ticket = ticket;
    state.free_tickets.push_back(ticket);
  }
  ScheduledRequest& request = state.request(state.free_tickets.back());
  request.blocks.assign(arrival.prefix_blocks.begin(), arrival.prefix_blocks.end());
  state.free_tickets.pop_back();

  const double tokens = std::max(arrival.prompt_tokens, 1u);
  const State::Unloaded unloaded = state.unloaded(tokens);
  request.least_prefill = unloaded.prefill;
  const double target = seconds_or(arrival.ttft_target, state.default_ttft_target(unloaded.step));
  request.ttft_target = std::max(target, least_slack_of_prefill * request.least_prefill);
  request.entry = {
      .prompt_tokens = tokens,
      .tpot_target = seconds_or(arrival.tpot_target, state.default_tpot_target(unloaded.step)),
      .output_class = output_class_of(arrival),
      .streams = arrival.streams};
  request.choices = std::max(arrival.choices, 1u);
  request.tokens_per_block = arrival.tokens_per_block;
  request.arrived_at =
      seconds_since_epoch(arrival.waiting_since != Instant{} ? arrival.waiting_since : now);
  request.needs_room = 0;
  request.adapter = arrival.adapter;
  request.tenant = arrival.tenant;
  request.tenant_weight = std::max(arrival.tenant_weight, 1e-3);
  request.priority = arrival.priority;
  request.allowed = arrival.allowed;
  request.pinned = arrival.pinned;
  request.preferred = arrival.preferred;
  const auto excluded =
      arrival.excluded.first(std::min(arrival.excluded.size(), std::size_t{Arrival::max_excluded}));
  std::ranges::copy(excluded, request.excluded.begin());
  request.excluded_count = static_cast<std::uint32_t>(excluded.size());
  request.only = arrival.only;
  request.held_for = no_backend;
  request.decision = arrival.decision;
  if (request.decision != nullptr) [[unlikely]]
    begin_record(request, now);

  // A tenant without requests gains no credit in the meantime.
  TenantCounter& counter = state.tenant(arrival.tenant);
  if (counter.waiting++ == 0) {
    const double least = state.waiting == 0 ? state.last_served : state.least_served();
    counter.served = std::max(counter.served, least);
  }
  state.add_waiting(request);
  return request.ticket;
}

std::span<const Scheduler::Placement> Scheduler::place(Instant now, Capacity* capacity) {
  SchedulingPass(*state_, seconds_since_epoch(now), capacity).run();
  return state_->placements;
}

Instant Scheduler::next_pass(Instant now) const {
  return state_->waiting == 0 ? never : now + duration_of(timer_seconds);
}

std::size_t Scheduler::waiting() const { return state_->waiting; }

void Scheduler::first_token(Ticket ticket, Instant now) {
  ScheduledRequest& request = state_->request(ticket);
  state_->learn_prefill(request);
  ScheduledBackend& backend = state_->backends[request.backend];
  backend.heard_at = seconds_since_epoch(now);
  ++backend.events;
  backend.ledger.first_token(request.entry, backend.heard_at);
}

void Scheduler::unseen(Ticket ticket) { state_->request(ticket).entry.streams = false; }

void Scheduler::token(Ticket ticket, std::uint32_t generated, Duration gap, Instant now) {
  ScheduledRequest& request = state_->request(ticket);
  ScheduledBackend& backend = state_->backends[request.backend];
  backend.heard_at = seconds_since_epoch(now);
  // Tokens of several choices come together or apart: gaps between them tell no step.
  const double step_gap = request.choices > 1 ? 0 : seconds_of(gap);
  backend.ledger.token(request.entry, static_cast<double>(generated) / request.choices, step_gap,
                       backend.heard_at);
}

void Scheduler::finished(Ticket ticket, const Outcome& outcome, Instant now) {
  ScheduledRequest& request = state_->request(ticket);
  ScheduledBackend& backend = state_->backends[request.backend];
  backend.heard_at = seconds_since_epoch(now);
  // The engine generates a token of each choice with each step.
  const double output_tokens =
      static_cast<double>(outcome.output_tokens.value_or(0)) / request.choices;
  backend.ledger.finishing(request.entry, output_tokens, seconds_since_epoch(now));
  if (!request.entry.streams) state_->learn_prefill(request);
  state_->settle_output(request, outcome.output_tokens ? output_tokens : request.entry.generated);
  if (outcome.output_tokens) state_->lengths.learn(request.entry.output_class, output_tokens);
  ++backend.events;
  backend.ledger.ended(request.entry, seconds_since_epoch(now));
  count_share(backend.streams, request.entry.streams);
  // A prompt shorter than a block has none, however well it is known.
  if (request.entry.prompt_tokens > request.tokens_per_block)
    count_share(backend.has_blocks, !request.blocks.empty());
  count_share(backend.confirms_hits, outcome.cached_tokens.has_value());
  if (outcome.cached_tokens) state_->learn_hit(request, outcome);
  state_->free(request);
}

void Scheduler::abandoned(Ticket ticket, Instant now) {
  ScheduledRequest& request = state_->request(ticket);
  if (request.backend == no_backend) {
    if (request.decision != nullptr) [[unlikely]]
      record_leaving(request, now);
    state_->remove_waiting(request);
  } else {
    ScheduledBackend& backend = state_->backends[request.backend];
    ++backend.events;
    const bool decoded = request.entry.stage == LedgerEntry::Stage::decode;
    state_->settle_output(request, decoded ? request.entry.generated : 0);
    backend.ledger.ended(request.entry, seconds_since_epoch(now));
  }
  state_->free(request);
}

// ---- Estimates ----

Confidence ScheduledBackend::confidence() const {
  if (ledger.speed().prefill_samples() < warm_samples) return Confidence::cold;
  if (has_blocks < 0.5) return Confidence::unknown_prompts;
  if (streams < 0.5) return Confidence::unseen_first_tokens;
  return confirms_hits < 0.5 ? Confidence::assumed_hits : Confidence::confirmed;
}

BackendForecast Scheduler::forecast(std::uint32_t slot, Instant now) const {
  const ScheduledBackend& backend = state_->backends[slot];
  return {.confidence = backend.confidence(),
          .wait = duration_of(backend.ledger.wait_seconds(seconds_since_epoch(now))),
          .predicted_cached = static_cast<std::uint64_t>(backend.predicted_cached),
          .reported_cached = static_cast<std::uint64_t>(backend.reported_cached)};
}

double Scheduler::capacity() const {
  constexpr double least = 0.05;  // where steps take longer than the target by themselves
  const double target = state_->default_tpot_target(state_->unloaded(1).step);
  double sum = 0;
  double count = 0;
  for (const ScheduledBackend& backend : state_->used()) {
    if (!backend.known) continue;
    sum += std::max(least, 1 - backend.ledger.speed().step_seconds(0, 0) / target);
    count += 1;
  }
  return count > 0 ? sum / count : 0;
}

Duration Scheduler::predicted_prefill(std::uint32_t slot, std::uint32_t uncached_tokens,
                                      std::uint32_t cached_tokens) const {
  const BackendLedger& ledger = state_->backends[slot].ledger;
  return duration_of(ledger.prefill_seconds(uncached_tokens, cached_tokens, ledger.step_seconds()));
}

PrefixIndex& Scheduler::prefixes() const { return state_->index; }

}  // namespace evenkeel
