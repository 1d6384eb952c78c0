// What decides in a replay where requests go: the scheduler, a picker, or a rule of the caller's,
// fed as the daemon feeds it.
#pragma once

#include <cstdint>

#include "evenkeel/base/clock.h"
#include "evenkeel/base/load_sample.h"
#include "evenkeel/replay/replayed_request.h"

namespace evenkeel {

/// Does at once what a dispatcher decides. Backends are numbered from 0.
class RequestSink {
 public:
  virtual ~RequestSink() = default;
  /// Sets the request's `backend` and `sent_at`.
  virtual void send(ReplayedRequest& request, std::uint32_t backend) = 0;
  virtual void refuse(ReplayedRequest& request) = 0;
  /// Tokens of the prompt that the backend's engine has in its cache now: what a reader of its KV
  /// events knows. None of our pickers reads them.
  virtual std::uint32_t cached_tokens(const ReplayedRequest& request,
                                      std::uint32_t backend) const = 0;
};

/// Events in the order of time. It uses its sink in `arrived` and `decide`.
class Dispatcher {
 public:
  virtual ~Dispatcher() = default;
  virtual void arrived(ReplayedRequest& request, Instant now) = 0;
  virtual void first_token(ReplayedRequest& request, Instant now) = 0;
  virtual void token(ReplayedRequest& request, std::uint32_t generated, Duration gap,
                     Instant now) = 0;
  virtual void finished(ReplayedRequest& request, Instant now) = 0;
  virtual void polled(std::uint32_t backend, const LoadSample& report, Instant now) = 0;
  /// Called after events, and at `next_decision`.
  virtual void decide(Instant now) = 0;
  virtual Instant next_decision(Instant now) const = 0;
};

/// Sends requests when they arrive, and learns nothing from tokens but the first.
class ImmediateDispatcher : public Dispatcher {
 public:
  void token(ReplayedRequest&, std::uint32_t, Duration, Instant) override {}
  void decide(Instant) override {}
  Instant next_decision(Instant) const override { return never; }
};

}  // namespace evenkeel
