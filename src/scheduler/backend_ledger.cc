#include "scheduler/backend_ledger.h"

#include <algorithm>
#include <cmath>

#include "evenkeel/scheduler/scheduler.h"

namespace evenkeel {
namespace {

constexpr double least_patience = 0.5;  // seconds, with a head that shows no first token
constexpr double overdue_factor = 3;    // likewise, times its predicted prefill
constexpr double overdue = 0.3;         // how much longer a late head is expected to take
constexpr double least_left = 0.1;      // of a head's S
/// More tokens between two calls of `token` are not assumed: streams that stall would seem to be
/// ahead.
constexpr double max_unseen_tokens = Scheduler::sampled_tokens - 1;
// A step to come takes longer than one without prompts: further prompts will come in between.
constexpr double interference = 1.5;
constexpr double slack_age = 0.05;        // seconds
constexpr double same_step = 0.25;        // of a step: first tokens so close came with the same one
constexpr double smoothing = 0.02;        // of the means
constexpr double load_smoothing = 0.3;    // loads are rare
constexpr double max_load_growth = 4;     // of what loads took: a longer one counts as this long
constexpr double short_load = 1;          // seconds: up to these, one counts as long as it took
constexpr double foreign_decay = 0.5;     // seconds of others' work that a second completes
constexpr double negligible_wait = 0.02;  // seconds of others' work that spoil no sample
// Weight of a report by its age: 1 up to the first of these seconds, 0 from the second.
constexpr double fresh_report = 2;
constexpr double stale_report = 10;

// Limits on what another process has learned:
constexpr double max_seconds = 3600;
constexpr double max_context = 1e8;  // tokens

double pairs_of(const LedgerEntry& entry) {
  return entry.uncached * (entry.cached + entry.uncached / 2);
}

}  // namespace

void BackendLedger::reset(const EngineSpeed::Coefficients& prior, std::uint32_t step_tokens,
                          double kv_tokens) {
  speed_.reset(prior, step_tokens);
  kv_tokens_ = kv_tokens;
  pending_ = unseen_ = {};
  history_ = {};
  finished_ = 0;
  load_seconds_.reset();
  foreign_wait_ = foreign_running_ = report_weight_ = 0;
}

void BackendLedger::learned(LearnedEngine& into) const {
  speed_.learned(into);
  into.finished = finished_;
  into.mean_prefill = mean_prefill_;
  into.mean_context = mean_context_;
  into.load_seconds = load_seconds_;
}

void BackendLedger::restore(const LearnedEngine& learned) {
  speed_.restore(learned);
  finished_ = learned.finished;
  const auto is_usual = [](double value, double most) { return value > 0 && value <= most; };
  if (is_usual(learned.mean_prefill, max_seconds)) mean_prefill_ = learned.mean_prefill;
  if (is_usual(learned.mean_context, max_context)) mean_context_ = learned.mean_context;
  if (learned.load_seconds && is_usual(*learned.load_seconds, max_seconds))
    load_seconds_ = learned.load_seconds;
}

/// Call it before streams come or go.
void BackendLedger::integrate(double now) {
  const double passed = std::max(0.0, now - history_.time);
  history_.time += passed;
  history_.stream_seconds += passed * streams();
  history_.context_seconds += passed * context_tokens();
  age_report(now);
}

void BackendLedger::age_report(double now) {
  const double weight = (stale_report - (now - polled_at_)) / (stale_report - fresh_report);
  report_weight_ = std::clamp(weight, 0.0, 1.0);
}

double BackendLedger::foreign_wait(double now) const {
  return std::max(0.0, foreign_wait_ - foreign_decay * (now - polled_at_));
}

EngineHistory BackendLedger::history(double now) {
  integrate(now);
  EngineHistory all = history_;
  if (queue_.empty()) return all;
  const LedgerEntry& head = *queue_.front();
  const double share =
      std::clamp((now - head_since_) / std::max(head.prefill_seconds, 1e-6), 0.0, 1.0);
  all.uncached += share * head.uncached;
  all.pairs += share * pairs_of(head);
  return all;
}

bool BackendLedger::stuck(double now) const {
  if (queue_.empty() || !queue_.front()->streams) return false;
  return now - head_since_ > patience();
}

double BackendLedger::patience() const {
  return std::max(least_patience, overdue_factor * queue_.front()->prefill_seconds);
}

bool BackendLedger::takes_one_more(double now) const {
  return stuck(now) && now - sent_at_ > patience();
}

void BackendLedger::dispatched(LedgerEntry& entry, double now) {
  sent_at_ = now;
  entry.at_dispatch = history(now);
  entry.stage = LedgerEntry::Stage::prefill;
  entry.found_queue_empty = queue_.empty();
  if (queue_.empty()) {
    head_since_ = seen_at_ = now;
    unseen_ = {};
  } else {
    rest_seconds_ += entry.prefill_seconds;
  }
  queue_.push_back(&entry);
  slack_is_old_ = true;
  uncached_tokens_ += entry.uncached;
}

void BackendLedger::pop_head(double now) {
  history_.uncached += queue_.front()->uncached;
  history_.pairs += pairs_of(*queue_.front());
  queue_.erase(queue_.begin());
  head_since_ = now;
  if (queue_.empty()) emptied_at_ = now;
}

void BackendLedger::begin_stream(LedgerEntry& entry, double first_token_at) {
  integrate(first_token_at);
  entry.stage = LedgerEntry::Stage::decode;
  entry.index = static_cast<std::uint32_t>(streams_.size());
  entry.first_token_at = entry.generated_at = first_token_at;
  entry.generated = 1;
  streams_.push_back(&entry);
  prompt_context_ += entry.prompt_tokens;
  mean_context_ += smoothing * (entry.prompt_tokens - mean_context_);
  mean_prefill_ += smoothing * (entry.prefill_seconds - mean_prefill_);
  slack_is_old_ = true;
}

void BackendLedger::end_unseen_head(double at) {
  LedgerEntry& head = *queue_.front();
  unseen_.uncached += head.uncached;
  unseen_.pairs += pairs_of(head);
  unseen_.steps += speed_.steps_of(head.uncached);
  pop_head(at);
  begin_stream(head, at);
}

void BackendLedger::first_token(LedgerEntry& entry, double now) {
  if (entry.stage != LedgerEntry::Stage::prefill) return;
  // The engine works in order: what was sent before it and does not show its first token is done.
  // Of a stream that is long overdue it will not be shown either.
  const bool is_stuck = stuck(now);
  while (!queue_.empty() && queue_.front() != &entry && (is_stuck || !queue_.front()->streams)) {
    end_unseen_head(now);
  }
  if (queue_.front() == &entry) {
    learn_prefill(entry, now);
    pop_head(now);
  } else {
    std::erase(queue_, &entry);
    head_since_ = now;
  }
  seen_at_ = now;
  unseen_ = {};
  begin_stream(entry, now);
  reestimate();
}

void BackendLedger::learn_prefill(const LedgerEntry& head, double now) {
  if (foreign_wait(now) > negligible_wait) return;
  const double took = now - seen_at_;
  const double step = step_seconds();
  const double pairs = pairs_of(head) + unseen_.pairs;
  const double uncached = head.uncached + unseen_.uncached;
  if (head.load_seconds > 0) return learn_load(head, took);
  if (took < same_step * step && pending_.uncached > 0) {
    pending_.uncached += uncached;
    pending_.pairs += pairs;
    pending_.seconds += took;
    return;
  }
  if (pending_.uncached > 0) {
    speed_.learn_prefill(pending_.uncached, pending_.pairs, pending_.seconds, step);
  }
  // A prompt that finds an engine in the middle of a step waits for its end.
  const double begun_step = head.found_queue_empty && streams() >= 1 ? step / 2 : 0;
  const double steps = speed_.steps_of(head.uncached) + unseen_.steps;
  pending_ = {.uncached = uncached,
              .pairs = pairs,
              .seconds = std::max(0.0, took - steps * step - begun_step)};
}

/// An engine that stalls meanwhile would seem to load slowly for minutes. Where loads have become
/// longer, the next ones tell so too.
void BackendLedger::learn_load(const LedgerEntry& head, double took) {
  const double computing = head.prefill_seconds - head.load_seconds;
  const double before = load_seconds_.value_or(head.load_seconds);
  const double longest = std::max(max_load_growth * before, short_load);
  const double seconds = std::clamp(took - computing, 0.0, longest);
  load_seconds_ = before + load_smoothing * (seconds - before);
}

void BackendLedger::reestimate() {
  rest_seconds_ = 0;
  const double step = step_seconds();
  for (LedgerEntry* entry : queue_) {
    entry->prefill_seconds =
        speed_.prefill_seconds(entry->uncached, entry->cached, step) + entry->load_seconds;
    if (entry != queue_.front()) rest_seconds_ += entry->prefill_seconds;
  }
}

void BackendLedger::token(LedgerEntry& entry, double generated, double gap, double now) {
  if (entry.stage != LedgerEntry::Stage::decode) return;
  age_report(now);
  entry.generated = generated;
  entry.generated_at = now;
  const bool undisturbed = gap > 0 && queue_.empty() && emptied_at_ <= now - gap;
  if (undisturbed) speed_.learn_step(streams(), context_tokens(), gap);
}

void BackendLedger::finishing(LedgerEntry& entry, double output_tokens, double now) {
  if (entry.streams) return;
  // The engine works in order: it has computed this prompt and those before it.
  while (entry.stage == LedgerEntry::Stage::prefill) end_unseen_head(now);
  if (foreign_wait(now) > negligible_wait || entry.load_seconds > 0) return;
  // Without a count of its tokens a response only tells that its prompt took no longer.
  const double seconds = now - entry.at_dispatch.time;
  if (output_tokens > 0 || seconds < entry.prefill_seconds) {
    learn_response(entry, std::max(output_tokens, 1.0), now);
  }
}

/// Learns from a whole response: each step but those of its prompt gave it one token.
void BackendLedger::learn_response(const LedgerEntry& entry, double output_tokens, double now) {
  const EngineHistory& begin = entry.at_dispatch;
  const EngineHistory end = history(now);
  const double seconds = end.time - begin.time;
  if (seconds <= 0) return;
  speed_.learn_response({.steps = output_tokens - 1 + speed_.steps_of(entry.uncached),
                         .streams = (end.stream_seconds - begin.stream_seconds) / seconds,
                         .context_tokens = (end.context_seconds - begin.context_seconds) / seconds,
                         .uncached = end.uncached - begin.uncached,
                         .pairs = end.pairs - begin.pairs},
                        seconds);
  reestimate();
}

void BackendLedger::ended(LedgerEntry& entry, double now) {
  integrate(now);
  if (entry.stage == LedgerEntry::Stage::prefill) {
    const bool was_head = queue_.front() == &entry;
    std::erase(queue_, &entry);
    if (was_head) {
      head_since_ = seen_at_ = now;
      unseen_ = {};
    }
    if (queue_.empty()) emptied_at_ = now;
    reestimate();
  } else if (entry.stage == LedgerEntry::Stage::decode) {
    streams_[entry.index] = streams_.back();
    streams_[entry.index]->index = entry.index;
    streams_.pop_back();
    prompt_context_ -= entry.prompt_tokens;
    if (streams_.empty()) prompt_context_ = output_context_ = 0;  // no rounding errors are left
    slack_is_old_ = true;
    ++finished_;
  }
  if (entry.stage != LedgerEntry::Stage::none) uncached_tokens_ -= entry.uncached;
  if (in_flight() == 0) uncached_tokens_ = 0;  // no rounding errors are left
  entry.stage = LedgerEntry::Stage::none;
}

void BackendLedger::polled(const LoadSample& report, double own, double now) {
  if (std::isnan(report.waiting) || std::isnan(report.running)) return;
  integrate(now);
  const double queued = std::min(static_cast<double>(queue_.size()), own);
  const double foreign = std::max(0.0, report.waiting + report.running - own);
  // Of the own prefills one is in work; the others wait.
  const double waiting = std::max(0.0, report.waiting - std::max(0.0, queued - 1));
  foreign_running_ = 0.5 * foreign_running() + 0.5 * std::max(0.0, foreign - waiting);
  foreign_wait_ = 0.3 * report_weight_ * foreign_wait_ + 0.7 * waiting * mean_prefill_;
  polled_at_ = now;
  age_report(now);
}

void BackendLedger::advance(double now) {
  age_report(now);
  bool moved = false;
  while (!queue_.empty() && !queue_.front()->streams &&
         now - head_since_ >= queue_.front()->prefill_seconds) {
    end_unseen_head(head_since_ + queue_.front()->prefill_seconds);
    moved = true;
  }
  if (moved) reestimate();
}

double BackendLedger::wait_seconds(double now) const {
  double wait = foreign_wait(now);
  if (queue_.empty()) return wait;
  const double took = std::max(0.0, now - head_since_);
  const double whole = queue_.front()->prefill_seconds;
  wait += std::max({whole - took, overdue * took, least_left * whole});
  return wait + std::max(0.0, rest_seconds_);
}

double BackendLedger::violations(double prefill_seconds, const OutputLengths& lengths, double now,
                                 double refresh) {
  const double age = now - slack_at_;
  if (age >= slack_age || (slack_is_old_ && age >= refresh)) refresh_slack(lengths, now);
  const double own = slack_.violations(prefill_seconds);
  // Streams of others are taken to have the same slack.
  return own * (1 + foreign_running() / std::max(1.0, static_cast<double>(streams_.size())));
}

void BackendLedger::refresh_slack(const OutputLengths& lengths, double now) {
  slack_at_ = now;
  slack_is_old_ = false;
  slack_.clear();
  output_context_ = 0;
  const double step = step_seconds();
  const double step_to_come = interference * step;
  for (const LedgerEntry* entry : streams_) {
    // Since it was last seen it has generated a token with each step, up to the next one shown. One
    // that is never seen is not assumed to stall.
    const double passed = now - entry->generated_at;
    const double unseen =
        entry->streams ? std::min(passed / step, max_unseen_tokens) : passed / step_to_come;
    const double generated = entry->generated + unseen;
    output_context_ += generated;
    const double left = lengths.remaining(entry->output_class, generated);
    slack_.add(entry->tpot_target * (generated + left) - (now - entry->first_token_at) -
               left * step_to_come);
  }
  // Prompts that will be computed before become streams that the next one disturbs.
  for (const LedgerEntry* entry : queue_) {
    const double left = lengths.remaining(entry->output_class, 1);
    slack_.add(entry->tpot_target * (1 + left) - left * step_to_come);
  }
  slack_.sort();
}

double BackendLedger::memory_use(double mean_output) const {
  if (kv_tokens_ <= 0) return 0;
  const auto outputs = static_cast<double>(streams_.size()) * mean_output / 2;
  return (uncached_tokens_ + outputs) / kv_tokens_;
}

}  // namespace evenkeel
