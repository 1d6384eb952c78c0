// Sends the spans of requests to a collector of traces.
#pragma once

#include <memory>
#include <string>

#include "evenkeel/config/config.h"
#include "evenkeel/stats/worker_metrics.h"

namespace evenkeel {

/// Takes the spans that workers have appended, about once a second, and sends them by OTLP over
/// HTTP. Has a thread of its own once tracing was on: a collector that is slow, or away, delays
/// nothing else, and what cannot be sent is dropped and counted.
///
/// Thread: one, that of the constructor.
class TraceExporter {
 public:
  /// `metrics` outlives it. `version`: of the daemon.
  TraceExporter(MetricsRegistry& metrics, std::string version);
  TraceExporter(const TraceExporter&) = delete;
  TraceExporter& operator=(const TraceExporter&) = delete;
  /// Sends what waits, for at most two seconds; a look-up of the collector's name ends first.
  ~TraceExporter();

  /// Sends to this collector from now on. Where tracing is off, the last one gets what requests in
  /// flight still record.
  void apply(const TracingConfig& config);

 private:
  class Impl;
  MetricsRegistry& metrics_;
  std::string version_;
  TracingConfig applied_;
  std::unique_ptr<Impl> impl_;  // null: tracing was never on
};

}  // namespace evenkeel
