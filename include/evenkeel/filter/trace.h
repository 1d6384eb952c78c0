// The trace of each request: taken over from the client, or begun.
#pragma once

#include <cstdint>

#include "evenkeel/base/rng.h"
#include "evenkeel/config/config.h"
#include "evenkeel/http/message.h"
#include "evenkeel/http/trace_context.h"

namespace evenkeel {

/// Gives each request its trace, and backends its `traceparent`. A valid one of the client is gone
/// on with, as it says whether it is sampled. Any other begins a trace, of which a share is
/// sampled; its `tracestate` is dropped. Never waits.
class TraceFilter final : public Filter {
 public:
  TraceFilter(std::uint64_t seed, const TracingConfig& config);
  Task<Result<Response>> handle(Request& request, Handler& next) override;

 private:
  Rng rng_;
  TraceSampler sampler_;
  Duration slow_;
  bool uses_gen_ai_names_;
};

}  // namespace evenkeel
