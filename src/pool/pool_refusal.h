// The error of a request that its pool does not take.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "evenkeel/base/clock.h"
#include "evenkeel/base/result.h"
#include "evenkeel/config/config.h"

namespace evenkeel {

/// Why a request that waited does so no more.
inline constexpr const char* displaced_text =
    "the queue is full, and a more urgent request, or one of a client with fewer requests in it, "
    "took the place of this one";

/// When a pool without any backend may have one again: after the checks that bring one back.
inline Duration recovery_time(const HealthConfig& health) {
  return std::min<Duration>(health.interval * health.rise, std::chrono::minutes(1));
}

inline Error refusal(Fault fault, std::string_view pool, std::string_view why,
                     Duration retry_after) {
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(retry_after).count();
  return Error{.fault = fault,
               .side = Side::proxy,
               .retry_after_ms = static_cast<std::uint32_t>(ms),
               .detail = std::string(pool).append(": ").append(why)};
}

}  // namespace evenkeel
