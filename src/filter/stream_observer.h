// What the filter `observe` notes of a response.
#pragma once

#include <cstdint>

#include "evenkeel/filter/stream_body.h"
#include "evenkeel/inference/token_estimates.h"
#include "evenkeel/stats/worker_metrics.h"

namespace evenkeel {

/// Counts what a response reports, and tells the listener of the request and the estimates.
///
/// REQUIRES: `info.inference` is set, and outlives the observer as everything else does that is
/// passed.
class StreamObserver final : public StreamListener {
 public:
  StreamObserver(RequestInfo& info, ModelMetrics& metrics, WorkerMetrics& worker_metrics,
                 TokenEstimates& estimates)
      : info_(info), metrics_(metrics), worker_metrics_(worker_metrics), estimates_(estimates) {}

  void on_chunk(const Chunk& chunk, const InferenceResponse& response, Instant now) override;
  void on_end(bool complete, Instant now) override;

 private:
  void count_tokens() const;
  /// Keeps the trace of what was observed, if it will be exported. REQUIRES: there is a trace.
  template <class TracedHistogram>
  void keep_exemplar(TracedHistogram& histogram, Duration duration) const;

  RequestInfo& info_;
  ModelMetrics& metrics_;
  WorkerMetrics& worker_metrics_;
  TokenEstimates& estimates_;
  std::uint32_t output_events_ = 0;  // up to the chunk before
  Instant last_output_{};
};

}  // namespace evenkeel
