// The objects that are told what the response of a model reports.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "evenkeel/http/inference_info.h"
#include "evenkeel/pool/affinity_table.h"
#include "evenkeel/pool/placed_request.h"

namespace evenkeel {

/// Tells the scheduler of a pool how the response goes on.
class SchedulerListener final : public ResponseListener {
 public:
  explicit SchedulerListener(std::shared_ptr<PlacedRequest> placed) : placed_(std::move(placed)) {}

  void on_read(const InferenceInfo& info, std::uint32_t before, Instant last_output,
               Instant now) override {
    const std::uint32_t events = info.response.output_events;
    if (events == before || !info.request.stream) return;
    if (before == 0) return placed_->first_token(now);
    constexpr std::uint32_t sampled = Scheduler::sampled_tokens;
    if (events / sampled == before / sampled) return;
    placed_->output(events, (now - last_output) / static_cast<int>(events - before), now);
  }
  void on_end(const InferenceInfo& info, Instant now) override {
    const InferenceResponse& response = info.response;
    placed_->finished({.output_tokens = response.completion_tokens,
                       .cached_tokens = response.cached_tokens,
                       .prompt_tokens = response.prompt_tokens},
                      info.request.stream ? response.output_events : 0, now);
  }
  void on_unread() override { placed_->unseen(); }

 private:
  std::shared_ptr<PlacedRequest> placed_;
};

/// Pins the id of the response to its backend, before the client knows the id.
class IdListener final : public ResponseListener {
 public:
  /// `next` is told everything too; null: none.
  IdListener(AnswerPins pins, std::unique_ptr<ResponseListener> next)
      : pins_(std::move(pins)), next_(std::move(next)) {}

  void on_read(const InferenceInfo& info, std::uint32_t before, Instant last_output,
               Instant now) override {
    if (!pinned_ && !info.response.id.empty()) {
      pinned_ = true;
      pins_.pin(AnswerPins::key_of_id(info.response.id), true, now);
    }
    if (next_ != nullptr) next_->on_read(info, before, last_output, now);
  }
  void on_end(const InferenceInfo& info, Instant now) override {
    if (next_ != nullptr) next_->on_end(info, now);
  }
  void on_unread() override {
    if (next_ != nullptr) next_->on_unread();
  }

 private:
  const AnswerPins pins_;
  std::unique_ptr<ResponseListener> next_;
  bool pinned_ = false;
};

}  // namespace evenkeel
