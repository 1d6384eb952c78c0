// Requests placed by the scheduler.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "evenkeel/replay/dispatcher.h"
#include "evenkeel/replay/replay.h"
#include "evenkeel/scheduler/scheduler.h"

namespace evenkeel {

class SchedulerDispatcher final : public Dispatcher {
 public:
  SchedulerDispatcher(const ReplayOptions& options, RequestSink& sink);

  void arrived(ReplayedRequest& request, Instant now) override;
  void first_token(ReplayedRequest& request, Instant now) override;
  void token(ReplayedRequest& request, std::uint32_t generated, Duration gap, Instant now) override;
  void finished(ReplayedRequest& request, Instant now) override;
  void polled(std::uint32_t backend, const LoadSample& report, Instant now) override;
  void decide(Instant now) override;
  Instant next_decision(Instant now) const override { return scheduler_.next_pass(now); }

 private:
  Scheduler scheduler_;
  RequestSink& sink_;
  std::vector<ReplayedRequest*> by_ticket_;
  std::unordered_map<std::uint64_t, std::uint32_t> sessions_;  // where each was last
};

}  // namespace evenkeel
