// Which requests may be sent again.
#pragma once

#include <cstdint>

#include "evenkeel/base/clock.h"
#include "evenkeel/base/result.h"
#include "evenkeel/config/config.h"
#include "evenkeel/http/message.h"
#include "evenkeel/inference/engine.h"

namespace evenkeel {

/// How an attempt ended that a backend has answered with an error.
struct ErrorAnswer {
  int status = 0;      ///< of HTTP; of a gRPC call, the status that its code stands for
  bool early = false;  ///< at once: see `RetryPolicy::max_early`
};

/// The rules of a pool or route (`retry` in the file). docs/reliability.md explains them.
struct RetryPolicy {
  /// An engine that fails this soon after the end of a request has not begun to generate.
  static constexpr Duration max_early = std::chrono::milliseconds(100);

  explicit RetryPolicy(const RetryRules& rules);

  /// True for an answer with this status from a server that runs an engine with these refusals.
  bool retries(const ErrorAnswer& answer, const EngineRefusals& refusals, bool idempotent) const;
  /// True for an attempt without an answer, after which the backend may have begun.
  bool retries(const Error& error, bool idempotent) const;
  /// True if repeating the request has the same effect as sending it once (RFC 9110, 9.2.2).
  bool is_idempotent(const Request& request) const;

  std::uint32_t attempts;
  Duration backoff_base;
  Duration backoff_max;
  Duration attempt_timeout;  ///< 0: none
  Duration within;           ///< after the first attempt began; 0: timeouts.first_byte
  std::uint64_t replay_bytes;
  bool idempotency_key;

 private:
  bool has(RetryOn cause) const { return (causes_ >> static_cast<unsigned>(cause) & 1) != 0; }

  std::uint32_t causes_ = 0;  // for any method: a bit for each RetryOn
};

/// The status that an answer stands for: that of HTTP, or for a gRPC call without a message the
/// status that its code stands for.
int status_of_answer(const Request& request, const Response& response);

}  // namespace evenkeel
