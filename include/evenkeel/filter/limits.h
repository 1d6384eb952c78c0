// Refuses what is beyond a tenant's limits, before it reaches a backend.
#pragma once

#include <memory>

#include "evenkeel/http/message.h"
#include "evenkeel/tenancy/limits.h"

namespace evenkeel {

/// The filter `limits`: reserves what a request is likely to use of its tenant's limits, and
/// settles it with what it has used once its response has ended, however it ended. What an engine
/// does not count is estimated. A request beyond a limit gets 429, or a lower priority; answers to
/// clients of OpenAI's and Anthropic's libraries say what is left.
///
/// The use of a limit exceeds it by what requests in flight generate beyond their estimates, and by
/// nothing else.
///
/// Thread: one worker's. REQUIRES: what is passed outlives the filter and the responses.
class LimitsFilter final : public Filter {
 public:
  /// `store`: the quotas of all replicas; null: this one's alone count.
  LimitsFilter(const Config& config, LimitUse& use, QuotaStore* store)
      : table_(config),
        use_(use),
        store_(store),
        on_failure_(config.shared_state ? config.shared_state->on_failure : StoreFailure::local) {}

  Task<Result<Response>> handle(Request& request, Handler& next) override;

 private:
  Task<Result<Response>> ask_store(Request& request, std::unique_ptr<Reservation> reservation,
                                   TokenUse estimate, Handler& next);
  Task<Result<Response>> decide(Request& request, const std::optional<LimitRefusal>& refusal,
                                std::unique_ptr<Reservation> reservation, Handler& next);
  Result<Response> refuse(Request& request, const LimitRefusal& refusal,
                          const Reservation& reservation) const;
  Task<Result<Response>> serve(Request& request, std::unique_ptr<Reservation> reservation,
                               Handler& next);

  const LimitTable table_;
  LimitUse& use_;
  QuotaStore* const store_;
  const StoreFailure on_failure_;
};

}  // namespace evenkeel
