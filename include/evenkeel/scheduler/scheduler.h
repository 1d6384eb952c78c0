// Places requests to models by what they cost: when each one starts, and on which backend.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "evenkeel/base/clock.h"
#include "evenkeel/base/load_sample.h"
#include "evenkeel/base/priority.h"
#include "evenkeel/config/config.h"
#include "evenkeel/scheduler/learned_scheduler.h"

namespace evenkeel {

class PrefixIndex;
struct Decision;

struct SchedulerOptions {
  std::uint32_t slots = 64;   ///< the most backends at a time
  ExpectedTimeConfig config;  ///< targets that it does not give are learned
  /// The first that waits of a priority rises by one class with each third of this. 0: never.
  Duration patience{};
};

/// What an engine says of itself.
struct EngineFacts {
  std::uint64_t identity = 0;   ///< a hash that is the same in every process, as of its address
  std::uint64_t kv_tokens = 0;  ///< that its KV cache holds; 0: unknown, memory is not considered
  std::uint32_t step_tokens = 8192;  ///< of one step: vLLM's `max_num_batched_tokens`
};

/// Some of the slots of a scheduler.
class SlotSet {
 public:
  void add(std::uint32_t slot) {
    if (slot / bits >= words_.size()) words_.resize(slot / bits + 1);
    words_[slot / bits] |= std::uint64_t{1} << slot % bits;
  }
  void clear() { words_.assign(words_.size(), 0); }
  bool intersects(const SlotSet& other) const {
    for (std::size_t i = 0; i < words_.size() && i < other.words_.size(); ++i) {
      if ((words_[i] & other.words_[i]) != 0) return true;
    }
    return false;
  }
  bool contains(std::uint32_t slot) const {
    return slot / bits < words_.size() && (words_[slot / bits] >> slot % bits & 1) != 0;
  }

 private:
  static constexpr std::uint32_t bits = 64;
  std::vector<std::uint64_t> words_;
};

/// A request as it arrives.
struct Arrival {
  std::uint32_t prompt_tokens = 1;  ///< known or estimated
  /// A hash for each block of the prompt, over all that precedes the block's end. Copied.
  std::span<const std::uint64_t> prefix_blocks;
  double tokens_per_block = 0;   ///< without tokens that no block has, such as those of images
  std::uint32_t max_tokens = 0;  ///< of the output; 0: unknown. Only to find outputs alike
  std::uint32_t choices = 1;     ///< outputs, which are generated side by side
  bool streams = true;           ///< `first_token` will be called
  Priority priority = Priority::standard;
  std::uint64_t tenant = 0;  ///< a hash of what names the tenant
  double tenant_weight = 1;  ///< its share, against others that wait
  std::optional<Duration> ttft_target;
  std::optional<Duration> tpot_target;
  /// Since when it has waited, if it did so before it arrived here; a default Instant: it did not.
  Instant waiting_since{};
  /// A hash of the name of the LoRA adapter that it asks for; 0: none. An engine that has not
  /// loaded it does so first, which takes a second or as long as it took there before.
  std::uint64_t adapter = 0;
  /// The backends that it may go to; null: all. Outlives its wait.
  const SlotSet* allowed = nullptr;
  static constexpr std::uint32_t any_slot = ~std::uint32_t{0};
  std::uint32_t pinned = any_slot;          ///< it may only go there
  std::uint32_t preferred = any_slot;       ///< where its session was: costs there weigh less
  std::span<const std::uint32_t> excluded;  ///< never go there; the first `max_excluded` count
  static constexpr std::size_t max_excluded = 8;
  const SlotSet* only = nullptr;  ///< go nowhere else; outlives the ticket. Null: go anywhere
  /// Where to record why it is placed as it is; null: nowhere. Outlives the ticket.
  Decision* decision = nullptr;
};

/// Whether requests may start on a backend, as far as its owner knows.
enum class SlotState : std::uint8_t {
  out,      ///< it is out of rotation
  full,     ///< it has no slot for another request
  avoided,  ///< it failed lately: only for requests that all others are avoided for too
  open,
};

/// How far the signals of a backend carry, from all to none. Each step down costs some precision.
enum class Confidence : std::uint8_t {
  confirmed,            ///< responses also confirm what the prefix index predicts
  assumed_hits,         ///< no response reports cached tokens: the index is not corrected
  unseen_first_tokens,  ///< responses are not streamed: prefills end when they are predicted to,
                        ///< and only whole responses tell how fast the engine is
  unknown_prompts,      ///< bodies are not read: no prefixes, sizes are guesses
  cold,                 ///< too few requests: speeds are those of the pool, or of no engine
};

/// The stable word, such as "assumed_hits".
const char* to_string(Confidence confidence);

/// What a scheduler expects of one backend.
struct BackendForecast {
  Confidence confidence = Confidence::cold;
  Duration wait{};  ///< until a prompt that is sent now is begun
  /// Tokens of prompts that were cached at the backend, of all responses that reported theirs: as
  /// predicted when the requests were placed, and as reported.
  std::uint64_t predicted_cached = 0;
  std::uint64_t reported_cached = 0;
};

/// The expected-time scheduler: late binding and marginal predicted cost.
///
/// A request waits here until a backend can start its prefill at once (predicted backlog W below
/// two steps). Waiting requests are ordered by priority, then by what their tenant has had, then
/// by predicted prefill, less half of the time they have waited. Each goes to the backend of least
///
///   cost = TTFT + min(4, ((age + TTFT) / target)^2) + 0.5 S + 2 X + 0.1 D + M + L   in seconds
///
/// TTFT: backlog + promises to requests before it + S. S: its own prefill, which depends on what
/// the backend has cached. X: streams there that are expected to miss their target for time per
/// output token because of it. D: longer decoding. M: memory pressure. L: the time to load the LoRA
/// adapter again that makes room for the request's, if it is likely to be asked for soon. Costs
/// within 5 % are ties: where it can start now comes first, then rendezvous hashing of the prompt's
/// prefix decides. A request is also held while X is large and it has TTFT budget left.
///
/// Everything is learned from events of this process: predicted speeds from first tokens and from
/// gaps between tokens, cache content from what was sent. All times come in as arguments.
///
/// Thread: one at a time; a short lock around each call is enough. No call blocks. After warm-up no
/// call allocates, except that a longer prompt than any before makes its slot grow.
class Scheduler {
 public:
  using Ticket = std::uint32_t;
  static constexpr std::uint32_t no_backend = ~std::uint32_t{0};

  explicit Scheduler(const SchedulerOptions& options);
  /// Changes all options but `slots` and `config.index_bytes`.
  void configure(const SchedulerOptions& options);
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  // ---- Backends, by slot: 0 <= slot < options.slots ----

  /// A backend takes the slot and is open. Its speed is predicted as the mean of the others',
  /// half as slow again. REQUIRES: nothing is in flight in the slot.
  void add_backend(std::uint32_t slot, const EngineFacts& facts);
  /// The backend leaves the slot. REQUIRES: nothing is in flight in the slot.
  void remove_backend(std::uint32_t slot);
  /// Updates what the backend's engine has told of itself; values that are 0 change nothing.
  void describe(std::uint32_t slot, std::uint64_t kv_tokens, std::uint32_t step_tokens);
  void set_state(std::uint32_t slot, SlotState state);
  /// Notes that the engine held these adapters at that time, the last used first, and keeps `slots`
  /// of them; 0: unknown. What has been sent there since counts as held too, and takes the place of
  /// what was not used for longest.
  void adapters(std::uint32_t slot, std::span<const std::uint64_t> held, std::uint32_t slots,
                Instant as_of);
  /// Notes that the engine has restarted: its cache is empty, and it has loaded no adapter.
  void backend_cleared(std::uint32_t slot);
  /// Takes in a poll of the engine's load. Only read with `shared_backends`. A report that says too
  /// little changes nothing. `in_flight_at_poll`: requests of this process that were there then;
  /// nothing: as many as are there now.
  void polled(std::uint32_t slot, const LoadSample& report, Instant now,
              std::optional<std::uint32_t> in_flight_at_poll = std::nullopt);

  // ---- Requests ----

  Ticket arrive(const Arrival& arrival, Instant now);

  struct Placement {
    Ticket ticket = 0;
    std::uint32_t backend = no_backend;  ///< `no_backend`: refused, and the ticket is void
    /// When the requests that wait now are predicted to have started, if this one is refused.
    Duration retry_after{};
    Duration predicted_ttft{};  ///< from now
    /// The predicted cost: the engine's time for the prompt, and the time that it then decodes, one
    /// stream among others. If the request is refused, on the best backend.
    Duration prefill{};
    Duration decode{};
    /// What prompt and output add to steps that run anyway: the engine's time that another such
    /// request costs where there are many.
    Duration work{};
  };
  /// The capacity of the backends, which may be shared with others.
  class Capacity {
   public:
    virtual ~Capacity() = default;
    /// Takes a place for a request that starts. False if the backend is full, and gets no request
    /// in this pass.
    virtual bool try_acquire(std::uint32_t slot) = 0;
  };
  /// Starts and refuses requests. Call it after each event, and at `next_pass`. What it starts
  /// counts on its backend from now on. The result is valid until the next call. Without
  /// `capacity` every backend that is open takes what it gets.
  std::span<const Placement> place(Instant now, Capacity* capacity = nullptr);
  /// When `place` is due although nothing happens: predictions age. `never` while nothing waits.
  Instant next_pass(Instant now) const;
  std::size_t waiting() const;

  // Events of placed requests, in this order; others than `finished` may be missing.

  void first_token(Ticket ticket, Instant now);
  /// Notes that the first token of the request will not be seen.
  void unseen(Ticket ticket);
  /// The sampling interval of streams, in tokens: `token` tells that a stream has `generated`
  /// tokens in all its choices, and that the last came `gap` after the one before it.
  static constexpr std::uint32_t sampled_tokens = 10;
  void token(Ticket ticket, std::uint32_t generated, Duration gap, Instant now);

  struct Outcome {
    std::optional<std::uint64_t> output_tokens;  ///< of all choices
    std::optional<std::uint64_t> cached_tokens;  ///< of the prompt, as the engine reports them
    std::optional<std::uint64_t> prompt_tokens;  ///< of all of the prompt, likewise
  };
  /// The response has ended. The ticket is void.
  void finished(Ticket ticket, const Outcome& outcome, Instant now);
  /// Ends a request that failed, or whose client left, placed or not. The ticket is void.
  void abandoned(Ticket ticket, Instant now);

  // ---- Estimates ----

  BackendForecast forecast(std::uint32_t slot, Instant now) const;
  /// The work (Placement::work) that a backend can do in a second, on average, so that its streams
  /// meet the pool's target for the time per output token, in seconds: the rest is the steps' own
  /// time. 0: there is no backend.
  double capacity() const;
  /// Predicted time of a prefill on the backend as it is now.
  Duration predicted_prefill(std::uint32_t slot, std::uint32_t uncached_tokens,
                             std::uint32_t cached_tokens) const;
  /// What the backends probably have in their caches, by slot. Another index for as many slots may
  /// take its place.
  PrefixIndex& prefixes() const;

  // ---- What outlives the process (scheduler_learned.cc) ----

  /// What is known of a backend, but for its prefixes and its run. Allocates nothing if there is
  /// room for `max_learned_adapters`.
  void learned(std::uint32_t slot, LearnedEngine& into, Instant now) const;
  static constexpr std::size_t max_learned_adapters = 32;
  /// What is known of all requests, likewise with `max_learned_classes` and `max_learned_lengths`.
  void learned(LearnedTraffic& into) const;
  static constexpr std::size_t max_learned_classes = 4096;
  static constexpr std::size_t max_learned_lengths = 400;

  /// Continues with what another process has learned. Numbers that nothing can have taught are
  /// ignored. REQUIRES: after `add_backend`, before the first request.
  void restore(std::uint32_t slot, const LearnedEngine& learned, Instant now);
  void restore(const LearnedTraffic& learned);

  struct State;

 private:
  std::unique_ptr<State> state_;
};

}  // namespace evenkeel
