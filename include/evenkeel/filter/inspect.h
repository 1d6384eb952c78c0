// Reads what a request asks of a model before it is placed.
#pragma once

#include <cstdint>
#include <optional>

#include "evenkeel/base/overload.h"
#include "evenkeel/filter/replay_body.h"
#include "evenkeel/http/message.h"
#include "evenkeel/inference/request_reader.h"
#include "evenkeel/inference/token_estimates.h"
#include "evenkeel/inference/window_budget.h"
#include "evenkeel/stats/worker_metrics.h"

namespace evenkeel {

/// Refuses a request that depends on more of its body than there was memory for
/// (`InferenceInfo::cut_short`).
Error no_room_for_bodies();

/// Reads the body of requests to models, up to `max_body_bytes`, into `info.inference`, and passes
/// the request on when the body has ended, when nothing that follows would tell more, or when that
/// much was read. What was read is kept for the backend, and for retries. A body that is not
/// well-formed is refused (bad_request); bytes behind the limit are not checked.
///
/// Other requests pass unchanged and at once, and so does one that has been inspected.
///
/// Thread: one worker's. REQUIRES: what is passed by reference or pointer outlives it.
class InspectFilter final : public Filter {
 public:
  struct Options {
    std::uint64_t max_body_bytes;
    ReplayBody::Limits held;
  };

  /// `pressure` null: there is never any. `windows`: what reading zstd may take; null: anything.
  InspectFilter(WorkerMetrics& metrics, const TokenEstimates& estimates, Options options,
                const MemoryPressureLevel* pressure, WindowBudget* windows)
      : metrics_(metrics),
        estimates_(estimates),
        options_(options),
        pressure_(pressure),
        windows_(windows) {}

  Task<Result<Response>> handle(Request& request, Handler& next) override;

 private:
  struct Inspection;

  Task<Result<Response>> inspect(Request& request, RequestHead& head, Handler& next);
  Task<Result<Response>> inspect_rest(Request& request, Inspection inspection,
                                      Task<Result<Chunk>> next_chunk, Handler& next);
  bool wants_more(const Inspection& inspection) const;
  std::optional<Error> read(Request& request, Inspection& inspection, const Chunk& chunk) const;
  void end(Request& request, Inspection& inspection) const;

  WorkerMetrics& metrics_;
  const TokenEstimates& estimates_;
  const Options options_;
  const MemoryPressureLevel* pressure_;
  WindowBudget* const windows_;
};

}  // namespace evenkeel
