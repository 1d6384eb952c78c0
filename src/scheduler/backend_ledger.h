// What this process has under way on one backend, and what that predicts for another request.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "evenkeel/base/load_sample.h"
#include "scheduler/engine_speed.h"
#include "scheduler/output_lengths.h"
#include "scheduler/stream_slack.h"

namespace evenkeel {

/// What an engine has done up to a time: sums that only grow.
struct EngineHistory {
  double time = 0;
  double uncached = 0;         ///< tokens of prompts computed
  double pairs = 0;            ///< see EngineSpeed
  double stream_seconds = 0;   ///< streams, integrated over time
  double context_seconds = 0;  ///< tokens of context, likewise
};

/// A request as the ledger of its backend knows it. Times are seconds of one monotonic clock.
struct LedgerEntry {
  enum class Stage : std::uint8_t { none, prefill, decode };

  double prompt_tokens = 1;
  double uncached = 1;         ///< predicted: tokens of the prompt that are computed
  double cached = 0;           ///< predicted: tokens before them that are not
  double load_seconds = 0;     ///< predicted: until its adapter is loaded; the engine does no more
  double prefill_seconds = 0;  ///< S, with the model of now and `load_seconds`
  double tpot_target = 0;      ///< seconds per output token
  std::uint64_t output_class = 0;
  bool streams = true;  ///< its first token is seen

  // Set by the ledger.
  Stage stage = Stage::none;
  bool found_queue_empty = false;
  std::uint32_t index = 0;  // among the streams
  double first_token_at = 0;
  double generated = 0;  // tokens, when last seen
  double generated_at = 0;
  EngineHistory at_dispatch;  // of the backend
};

/// Own prefills in the order in which they were sent, own streams, and an estimate of the work of
/// others. Engines compute prompts first come, first served; so the first of the queue is in work
/// since the last first token.
///
///   W = max(S_head - e, 0.3 e, 0.1 S_head) + sum of the other S    e: how long the head is in work
///
/// The second term makes a head that is late count as late for longer still: the engine is slower
/// than predicted, or waits for memory.
///
/// Thread: one at a time. Allocates nothing once it has had its largest number of requests.
class BackendLedger {
 public:
  /// Starts as an engine that nothing is known of. `kv_tokens`: that its KV cache holds; 0:
  /// unknown.
  void reset(const EngineSpeed::Coefficients& prior, std::uint32_t step_tokens, double kv_tokens);

  /// What the engine has told of itself meanwhile.
  void describe(std::uint32_t step_tokens, double kv_tokens) {
    speed_.set_step_tokens(step_tokens);
    kv_tokens_ = kv_tokens;
  }

  void learned(LearnedEngine& into) const;
  /// Continues with it. REQUIRES: after `reset`, before the first event.
  void restore(const LearnedEngine& learned);

  // ---- Events. An entry is in at most one ledger, and outlives its stay there ----

  void dispatched(LedgerEntry& entry, double now);
  void first_token(LedgerEntry& entry, double now);
  /// The entry has `generated` tokens, the last of which came `gap` seconds after the one before
  /// it; 0: unknown.
  void token(LedgerEntry& entry, double generated, double gap, double now);
  /// Learns from an entry that was served and is about to end, with so many tokens in all; 0:
  /// unknown. A response that is not streamed tells only by this how fast the engine is.
  void finishing(LedgerEntry& entry, double output_tokens, double now);
  /// Finished, failed or abandoned. Does nothing to an entry that is not here.
  void ended(LedgerEntry& entry, double now);
  /// The engine's own report, where others send requests to it too. Estimates their share.
  /// `own`: requests of this process that the engine had then.
  void polled(const LoadSample& report, double own, double now);
  /// Moves prompts whose first token nothing will show to the streams, when their time is over.
  void advance(double now);

  // ---- Predictions, in seconds ----

  double wait_seconds(double now) const;  ///< W
  /// The time to load an adapter; nothing: the engine has loaded none yet.
  std::optional<double> load_seconds() const { return load_seconds_; }
  /// tau
  double step_seconds() const { return speed_.step_seconds(streams(), context_tokens()); }
  double prefill_seconds(double uncached, double cached, double step) const {
    return speed_.prefill_seconds(uncached, cached, step);
  }
  /// X: see StreamSlack. The slacks are recomputed when older than 50 ms; when streams have come or
  /// gone, when older than `refresh` seconds.
  double violations(double prefill_seconds, const OutputLengths& lengths, double now,
                    double refresh);
  /// Share of the KV cache that its requests need in the middle of their outputs, without the
  /// prefixes that they found there: many requests share those. 0: unknown.
  double memory_use(double mean_output) const;
  double kv_tokens() const { return kv_tokens_; }

  /// True if the head of the queue is so late that its first token may never be seen: the engine
  /// shows none, or the request was not complete. One more request may then be sent in spite of W.
  /// If its first token comes, the engine is past the head.
  bool takes_one_more(double now) const;

  bool idle() const { return queue_.empty() && streams() < 1; }
  bool computes_prompts() const { return !queue_.empty(); }
  double streams() const { return static_cast<double>(streams_.size()) + foreign_running(); }
  std::size_t in_flight() const { return queue_.size() + streams_.size(); }
  const EngineSpeed& speed() const { return speed_; }
  /// Own requests that finished here since `reset`.
  std::size_t finished() const { return finished_; }

 private:
  double context_tokens() const {
    return prompt_context_ + output_context_ + foreign_running() * mean_context_;
  }
  /// Streams of others, as of the last event or `advance`: a report counts less as it ages.
  double foreign_running() const { return foreign_running_ * report_weight_; }
  /// Seconds of others' prompts that are left.
  double foreign_wait(double now) const;
  /// An event, or a look at the predictions: the last report is older now.
  void age_report(double now);
  void integrate(double now);
  /// True if the head of the queue is overdue: its first token has not come within `patience`.
  bool stuck(double now) const;
  double patience() const;
  EngineHistory history(double now);
  void pop_head(double now);
  void end_unseen_head(double at);
  void begin_stream(LedgerEntry& entry, double first_token_at);
  void learn_prefill(const LedgerEntry& head, double now);
  /// Learns the time of loading an adapter from a first token that came after so many seconds.
  void learn_load(const LedgerEntry& head, double took);
  void learn_response(const LedgerEntry& entry, double output_tokens, double now);
  void reestimate();
  void refresh_slack(const OutputLengths& lengths, double now);

  EngineSpeed speed_;
  double kv_tokens_ = 0;
  std::vector<LedgerEntry*> queue_;    // prefills, in the order of dispatch
  std::vector<LedgerEntry*> streams_;  // decodes
  double head_since_ = 0;
  double sent_at_ = 0;          // the last request
  double rest_seconds_ = 0;     // S of the queue without its head
  double uncached_tokens_ = 0;  // of prompts of the queue and of the streams
  double prompt_context_ = 0;   // prompts of the streams
  double output_context_ = 0;   // generated tokens of the streams, when the slacks were computed
  double emptied_at_ = 0;       // when the queue last became empty
  EngineHistory history_;       // without the head of the queue, until the last event
  std::size_t finished_ = 0;
  std::optional<double> load_seconds_;

  struct PrefillSample {
    double uncached = 0;
    double pairs = 0;
    double steps = 0;
    double seconds = 0;  // without the steps
  };
  PrefillSample pending_;  // prompts whose first tokens came together
  PrefillSample unseen_;   // prompts that are taken to be done since `seen_at_`
  double seen_at_ = 0;     // when the engine last showed a first token, or was taken to be idle

  double mean_prefill_ = 0.3;   // seconds
  double mean_context_ = 4000;  // tokens of a stream
  double foreign_wait_ = 0;     // seconds, at polled_at_
  double foreign_running_ = 0;  // at polled_at_
  double polled_at_ = 0;
  double report_weight_ = 0;

  StreamSlack slack_;
  double slack_at_ = -1;
  bool slack_is_old_ = true;  // streams have come or gone
};

}  // namespace evenkeel
