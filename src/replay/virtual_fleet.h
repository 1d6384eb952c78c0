// Simulated engines and a trace in virtual time: an event loop without a clock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <queue>
#include <vector>

#include "evenkeel/base/rng.h"
#include "evenkeel/replay/dispatcher.h"
#include "evenkeel/replay/replay.h"
#include "evenkeel/replay/replayed_request.h"

namespace evenkeel {

/// An engine and what it did.
struct VirtualEngine {
  explicit VirtualEngine(const EngineSpec& spec, double relative_speed)
      : engine(spec), speed(relative_speed) {}

  StepEngine engine;
  double speed;         ///< relative to the preset
  double slowdown = 1;  ///< of its steps, by EngineSlowdown
  Duration busy{};
  std::uint64_t prefill_tokens = 0;
};

/// Runs requests, in the order of their due times, through a dispatcher. The balancer sees each
/// event at once; load reports are as old as the last poll. Network and proxy take no time.
class VirtualFleet final : private RequestSink {
 public:
  VirtualFleet(const ReplayOptions& options,
               std::vector<std::unique_ptr<ReplayedRequest>>& requests,
               const DispatcherMaker& make_dispatcher);

  /// Runs until every request has ended, or 10 minutes after the last arrival. Returns the time
  /// then.
  Instant run();
  const std::vector<std::unique_ptr<VirtualEngine>>& engines() const { return engines_; }

 private:
  enum class Kind : std::uint8_t { step, poll, slowdown, decision };
  struct Event {
    Instant at;
    std::uint64_t number;  // of equal times, the first that was made comes first
    Kind kind;
    std::uint32_t index;  // of the backend, of the slowdown
    bool operator>(const Event& other) const {
      return at != other.at ? at > other.at : number > other.number;
    }
  };

  void schedule(Instant at, Kind kind, std::uint32_t index);
  void send(ReplayedRequest& request, std::uint32_t backend) override;
  void refuse(ReplayedRequest& request) override;
  std::uint32_t cached_tokens(const ReplayedRequest& request, std::uint32_t backend) const override;
  void begin_step(std::uint32_t backend);
  void end_step(std::uint32_t backend);
  void poll(std::uint32_t backend);
  void plan_decision();
  void handle(const Event& event);

  const ReplayOptions& options_;
  std::vector<std::unique_ptr<ReplayedRequest>>& requests_;
  std::vector<std::unique_ptr<VirtualEngine>> engines_;
  std::unique_ptr<Dispatcher> dispatcher_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::uint64_t event_count_ = 0;
  std::size_t arrivals_ = 0;
  std::size_t open_ = 0;  // arrived, and not at their end
  bool decision_planned_ = false;
  Instant now_{};
};

}  // namespace evenkeel
