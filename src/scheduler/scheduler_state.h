// The state of a Scheduler, and one pass over the requests that wait in it.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <deque>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "evenkeel/scheduler/decision.h"
#include "evenkeel/scheduler/prefix_index.h"
#include "evenkeel/scheduler/scheduler.h"
#include "scheduler/adapter_cache.h"
#include "scheduler/associative_table.h"
#include "scheduler/backend_ledger.h"
#include "scheduler/output_lengths.h"

namespace evenkeel {

/// Bounds for 1 KiB of text, whatever the tokenizer.
inline constexpr double min_tokens_per_block = 64;
inline constexpr double max_tokens_per_block = 1024;

/// A request from its arrival to its end. Times are seconds of the steady clock.
struct ScheduledRequest {
  LedgerEntry entry;
  std::vector<std::uint64_t> blocks;
  double tokens_per_block = 0;
  std::uint32_t choices = 1;
  double whole_blocks_cached = 0;  ///< predicted: tokens of the blocks that the index matched
  double arrived_at = 0;
  double ttft_target = 0;
  double least_prefill = 0;  ///< S on the best backend, when it was last looked at
  std::uint64_t adapter = 0;
  std::uint64_t tenant = 0;
  double tenant_weight = 1;
  double output_charge = 0;             ///< seconds that its tenant was charged for its output
  double seconds_per_output_token = 0;  ///< of all its choices
  Priority priority = Priority::standard;
  std::uint32_t backend = Scheduler::no_backend;
  const SlotSet* allowed = nullptr;
  std::uint32_t pinned = Arrival::any_slot;
  std::uint32_t preferred = Arrival::any_slot;
  std::array<std::uint32_t, Arrival::max_excluded> excluded{};
  std::uint32_t excluded_count = 0;
  const SlotSet* only = nullptr;
  std::uint32_t line = 0;  // where it waits
  double rank = 0;         // there
  // Set when the request was last held:
  std::uint32_t held_for = Scheduler::no_backend;
  std::uint32_t held_events = 0;  // of that backend
  double held_at = 0;
  double held_prefill = 0;  // S there
  double needs_room = 0;    // tokens that no KV cache had room for; 0: some had
  Scheduler::Ticket ticket = 0;
  Decision* decision = nullptr;

  /// True if the request allows the backend, whatever the backend's state.
  bool may_use(std::uint32_t slot) const {
    const auto* const end = excluded.data() + excluded_count;
    return (pinned == Arrival::any_slot || pinned == slot) &&
           (allowed == nullptr || allowed->contains(slot)) &&
           (only == nullptr || only->contains(slot)) &&
           std::find(excluded.data(), end, slot) == end;
  }
};

/// A backend and how well its signals are known.
struct ScheduledBackend {
  BackendLedger ledger;
  AdapterCache adapters;
  EngineFacts facts;
  bool known = false;
  SlotState state = SlotState::out;
  std::uint32_t events = 0;     ///< counts starts, first tokens and ends of its requests
  std::uint32_t candidate = 0;  ///< of the last pass, where its state is not `out`
  double index_capacity = 0;    ///< blocks; 0: not yet derived from kv_tokens
  double tokens_per_block = 0;  ///< mean of its prompts; 0: unknown
  // Shares of the last responses, 0..1.
  double confirms_hits = 0;
  double streams = 1;
  double has_blocks = 1;
  // Sums over the responses that report cached tokens.
  double predicted_cached = 0;
  double reported_cached = 0;
  // When one of its responses told something, and when its engine reported; only for records.
  double heard_at = -std::numeric_limits<double>::infinity();
  double reported_at = -std::numeric_limits<double>::infinity();

  Confidence confidence() const;
};

/// What engines have cached behind the blocks that the index matched, as they report it: on average
/// half of the block in which the match ends, and answers that came back as part of a prompt.
class CachedRemainder {
 public:
  /// Tokens, where the block behind the match has so many.
  double of(double next_block) const { return ratio_ * next_block; }
  void learn(double next_block, double found) {
    found_ = kept * found_ + std::clamp(found, -next_block, max_blocks * next_block);
    possible_ = kept * possible_ + next_block;
    ratio_ = std::max(0.0, found_ / possible_);
  }
  void learned(LearnedTraffic& into) const {
    into.cached_found = found_;
    into.cached_possible = possible_;
  }
  void restore(const LearnedTraffic& learned) {
    constexpr double most = 1e9;  // tokens
    const bool is_possible = learned.cached_possible > 0 && learned.cached_possible <= most &&
                             std::abs(learned.cached_found) <= max_blocks * learned.cached_possible;
    if (!is_possible) return;
    found_ = restored * learned.cached_found;
    possible_ = restored * learned.cached_possible;
    ratio_ = std::max(0.0, found_ / possible_);
  }

 private:
  static constexpr double kept = 0.98;  // of what was learned, for each response
  static constexpr double max_blocks = 4;
  static constexpr double restored = 0.2;  // weight of what another process has learned

  double found_ = 0;  // tokens
  double possible_ = 0;
  double ratio_ = 0;  // until the first report: nothing but what the index knows
};

/// What a tenant has had, in predicted seconds of engines divided by its weight: those of its
/// prompts, and what its outputs add to the steps that all streams share. After the virtual
/// token counter (Sheng et al., Fairness in Serving Large Language Models, OSDI 2024).
struct TenantCounter {
  double served = 0;
  std::uint32_t waiting = 0;
};

/// The requests of one tenant and priority that wait for the same backends, in the order in which
/// they start: by predicted prefill, less what they have aged. They age alike, so the order stays.
struct TenantLine {
  struct Entry {
    double rank;  ///< State::rank_of
    Scheduler::Ticket ticket;
    double arrived_at;
    bool operator<(const Entry& other) const {
      return rank != other.rank ? rank < other.rank : ticket < other.ticket;
    }
  };

  Priority priority;
  std::uint64_t tenant;
  const SlotSet* allowed;
  std::vector<Entry> entries{};

  bool is_for(const ScheduledRequest& request) const {
    return priority == request.priority && tenant == request.tenant && allowed == request.allowed;
  }
};

struct Scheduler::State {
  explicit State(const SchedulerOptions& options);

  ScheduledRequest& request(Ticket ticket) { return requests[ticket]; }
  void free(ScheduledRequest& request);
  void add_waiting(ScheduledRequest& request);
  void remove_waiting(const ScheduledRequest& request);
  /// Finds the place of a request whose predicted prefill has changed.
  void move_in_line(ScheduledRequest& request);
  /// Counts a request as one that waits no more. Its line must forget it.
  void count_leaving(const ScheduledRequest& request);
  static double rank_of(const ScheduledRequest& request);
  /// The time from which the request would be so late that it is refused.
  double refused_at(const ScheduledRequest& request) const;
  /// What the tenant has had that has had least, of those that wait.
  double least_served();
  void insert_in_line(ScheduledRequest& request);
  void remove_from_line(const ScheduledRequest& request);
  TenantCounter& tenant(std::uint64_t key);
  /// Tokens of a prompt behind the blocks that match, up to the end of one block.
  static double behind_match(const ScheduledRequest& request, double matched) {
    return std::clamp(request.entry.prompt_tokens - 1 - matched, 0.0, request.tokens_per_block);
  }
  /// Learns from a prompt that has been computed; what is only announced may never come.
  void learn_prefill(const ScheduledRequest& request) {
    mean_prefill += 0.02 * (request.entry.prefill_seconds - mean_prefill);
  }
  /// Corrects the charge to the tenant, which was for the output expected, to so many tokens.
  void settle_output(const ScheduledRequest& request, double tokens);
  /// The engine reports how much of the prompt it had cached.
  void learn_hit(const ScheduledRequest& request, const Outcome& outcome);
  void found_unpredicted(const ScheduledRequest& request);
  void set_index_capacity(std::uint32_t slot, double blocks);
  /// Sets the index's capacity of a backend from its KV cache, when the size of a block is known.
  void size_index(std::uint32_t slot, const ScheduledRequest& request);
  /// A request on the best backend, in seconds.
  struct Unloaded {
    double step = 0;     ///< phi0
    double prefill = 0;  ///< S, with an empty cache
  };
  Unloaded unloaded(double tokens) const;
  double default_ttft_target(double idle_step) const;
  double default_tpot_target(double idle_step) const;

  /// The slots up to the last one that a backend has.
  std::span<const ScheduledBackend> used() const { return std::span(backends).first(used_slots); }

  SchedulerOptions options;
  std::vector<ScheduledBackend> backends;
  std::uint32_t used_slots = 0;
  PrefixIndex index;
  CachedRemainder remainder;
  OutputLengths lengths;
  AssociativeTable<TenantCounter> tenants;
  std::deque<ScheduledRequest> requests;  // by ticket; a deque, because ledgers point to entries
  std::vector<Ticket> free_tickets;
  std::vector<TenantLine> lines;  // empty ones are used again
  std::size_t waiting = 0;        // in all of them
  double next_refusal = 0;        // no request has to be refused before
  std::vector<Placement> placements;
  double mean_prefill = 0.3;  // seconds
  double last_served = 0;     // of the tenant whose request started last

  /// The next request of a line in the order of a pass.
  struct Turn {
    Priority priority;
    std::int64_t bucket;  // of the tenant's counter
    TenantLine::Entry entry;
    std::uint32_t line;
    std::uint32_t index;    // in the line
    bool is_alone = false;  // what follows in the line has a turn of its own
    /// The priority and the tenant's share.
    std::pair<Priority, std::int64_t> turn() const { return {priority, bucket}; }
    bool operator>(const Turn& other) const { return other < *this; }
    bool operator<(const Turn& other) const {
      if (priority != other.priority) return priority < other.priority;
      return bucket != other.bucket ? bucket < other.bucket : entry < other.entry;
    }
  };
  /// A backend during a pass.
  struct Candidate {
    std::uint32_t slot = 0;
    std::uint64_t identity = 0;
    double wait = 0;      // W
    double promised = 0;  // E: prefills of requests before that wait for it
    double queued = 0;    // its share of all prefills that wait, once a request is refused
    double use = 0;       // of the KV cache
    double max_wait = 0;  // h
    double use_per_token = 0;
    double decode_step = 0;  // tau with the request, and without its context
    double step_per_context_token = 0;
    EngineSpeed::Prefill prefill_speed;
    bool is_new_and_busy = false;
    bool is_new_and_idle = false;
    bool takes_one_more = false;
    SlotState state = SlotState::open;
    // Set for the request that is being placed:
    double uncached = 0;
    double cached = 0;
    double load = 0;        // of its adapter, in seconds
    double eviction = 0;    // of the one that makes room, if it is loaded again
    double prefill = 0;     // S, with `load`
    double violations = 0;  // X
    double cost = 0;        // without X until it is computed; infinite: it may not go there
    bool usable = false;
  };
  /// Prefills that wait for the same backends, in seconds.
  struct QueuedWork {
    const SlotSet* allowed = nullptr;
    double seconds = 0;
  };
  std::vector<Turn> order;       // a heap
  std::vector<Ticket> repriced;  // in this pass
  std::vector<QueuedWork> queued_work;
  SlotSet ready_slots;
  std::vector<Candidate> candidates;
  std::vector<std::uint32_t> depths;
};

inline double seconds_since_epoch(Instant now) { return seconds_of(now.time_since_epoch()); }
/// Notes that the request is held for this reason from now on.
inline void note_hold(Decision& decision, HeldBy held_by, double now) {
  decision.held_seconds[static_cast<std::size_t>(decision.held_by)] += now - decision.held_since;
  decision.held_since = now;
  decision.held_by = held_by;
}

/// A request that has waited for so many seconds is not held for the sake of others any more.
inline constexpr double max_held_age = 1;

/// One pass: looks at the backends once, then places waiting requests in their order.
class SchedulingPass {
 public:
  SchedulingPass(Scheduler::State& state, double now, Scheduler::Capacity* capacity)
      : state_(state), now_(now), capacity_(capacity) {}

  void run();

 private:
  using Candidate = Scheduler::State::Candidate;

  void look_at_backends();
  bool stays_held(const ScheduledRequest& request);
  bool lacks_room(const ScheduledRequest& request) const;
  void note_need(ScheduledRequest& request) const;
  void place(ScheduledRequest& request);
  void hold(ScheduledRequest& request, Candidate& candidate) const;
  void refuse_late();
  void find_ready_slots();
  bool may_find_slot(const TenantLine& line);
  bool may_find_slot(const ScheduledRequest& request);
  void put_in_order();
  void add_turn(std::uint32_t line, std::uint32_t from, std::int64_t bucket);
  std::optional<Scheduler::State::Turn> next_turn();
  bool has_late(const Scheduler::State::Turn& turn);
  void keep_lines();
  void let_priorities_age();
  void find_last_late();
  bool ready(const Candidate& candidate) const;
  bool any_ready() const;
  void find_usable(const ScheduledRequest& request);
  void estimate(ScheduledRequest& request);
  void price_adapter(const ScheduledRequest& request, Candidate& candidate) const;
  Candidate* cheapest(const ScheduledRequest& request);
  Candidate* home_of(const ScheduledRequest& request, double least);
  Candidate* untried_or(const ScheduledRequest& request, Candidate& best);
  bool within_tie(double cost, double least) const;
  double violations(Candidate& candidate);
  static double added_per_token(const ScheduledRequest& request, const ScheduledBackend& backend);

  // ---- for requests with a record (record_decision.cc) ----
  /// It is looked at; `chosen` is the cheapest candidate, null: there is none. Without `held_by` it
  /// starts there.
  void record(const ScheduledRequest& request, Candidate* chosen, std::optional<HeldBy> held_by);
  void record_refusal(ScheduledRequest& request);
  void record_costs(const ScheduledRequest& request, Candidate* chosen);
  void record_shadow(Decision& decision, const Candidate& chosen);
  CandidateCost cost_of(const ScheduledRequest& request, const Candidate& candidate) const;
  std::optional<HeldBy> reason_to_hold(const ScheduledRequest& request,
                                       const Candidate& candidate) const;
  void start(ScheduledRequest& request, Candidate& candidate);
  void share_out_queue();
  double drain_seconds(const ScheduledRequest& request) const;
  double decode_seconds(const ScheduledRequest& request, double step) const;
  double work_seconds(const ScheduledRequest& request) const;

  Scheduler::State& state_;
  double now_;
  Scheduler::Capacity* capacity_;
  bool knows_ready_slots_ = false;
  bool has_untried_ = false;  // an idle backend is new
  std::optional<std::uint64_t> last_late_tenant_;
  std::pair<Priority, std::int64_t> last_late_turn_;
  // True if late requests of another tenant wait behind the one that is being placed. They will
  // disturb the streams anyway, so it does not wait for the sake of streams.
  bool others_are_late_ = false;
  double least_step_ = 0;
  double max_room_ = 0;    // tokens of a KV cache
  double usual_load_ = 0;  // seconds, of an adapter on a backend that has loaded none
  double mean_output_ = 0;
  double slack_refresh_ = 0;  // seconds
  // Set for the request that is being placed:
  std::uint64_t tie_key_ = 0;
  double output_ = 0;  // tokens that it is expected to get
};

}  // namespace evenkeel
