// Due times of the requests of an open loop.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "evenkeel/base/clock.h"
#include "evenkeel/load/trace.h"

namespace evenkeel {

/// Due times from the start of the load, in increasing order.
class Arrivals {
 public:
  virtual ~Arrivals() = default;
  /// When the next request is due; nothing after the last one.
  virtual std::optional<Duration> next() = 0;
};

/// Request i at exactly i / rate seconds, without end. REQUIRES: rate > 0.
std::unique_ptr<Arrivals> make_constant_rate_arrivals(double rate);

/// A Poisson process: independent, exponential gaps of 1 / rate seconds on average, without end.
std::unique_ptr<Arrivals> make_poisson_arrivals(double rate, std::uint64_t seed);

/// The rows' times divided by `speed`. The rows outlive the result.
std::unique_ptr<Arrivals> make_trace_arrivals(const std::vector<TraceRow>& rows, double speed);

}  // namespace evenkeel
