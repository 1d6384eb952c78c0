// What decides in a replay where requests go: the scheduler or a picker, fed as the daemon feeds
// it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "evenkeel/base/clock.h"
#include "evenkeel/base/load_sample.h"
#include "evenkeel/replay/replay.h"
#include "replay/replayed_request.h"

namespace evenkeel {

/// Does at once what a dispatcher decides.
class RequestSink {
 public:
  virtual ~RequestSink() = default;
  virtual void send(ReplayedRequest& request, std::uint32_t backend) = 0;
  virtual void refuse(ReplayedRequest& request) = 0;
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

/// REQUIRES: the picker is one of `replayable_pickers`.
std::unique_ptr<Dispatcher> make_dispatcher(std::string_view picker, const ReplayOptions& options,
                                            RequestSink& sink);

}  // namespace evenkeel
