// How a health check ended, and how errors and responses translate to that.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "evenkeel/base/result.h"
#include "evenkeel/inference/engine_health.h"
#include "evenkeel/upstream/backend_client.h"
#include "evenkeel/upstream/health_record.h"

namespace evenkeel {

struct CheckOutcome {
  /// Empty if this process could not check, for example because it had no free descriptor.
  std::optional<CheckResult> result = CheckResult::passed;
  std::string reason;    ///< why it did not pass
  bool loading = false;  ///< the server says that it is still loading
  /// True if the server is well, but says that it sleeps: it holds all requests until it is woken.
  bool sleeping = false;

  bool passed() const { return result == CheckResult::passed; }
};

CheckOutcome failed_check(CheckResult result, std::string reason, bool loading = false);
/// The outcome of a request that got no response. `what`: the request, such as "GET /health".
CheckOutcome failed_check(const Error& error, std::string_view what);
/// The outcome of a response that means `readiness`.
CheckOutcome outcome_of(Readiness readiness, std::string reason);
/// The outcome of a gRPC call whose status is an error.
CheckOutcome outcome_of(const GrpcReply& reply, std::string_view method);
/// The outcome of a call of grpc.health.v1.
CheckOutcome outcome_of_grpc_health(const GrpcReply& reply, const std::string& method);

/// The request, the status and the first line of a response.
std::string describe_response(std::string_view what, const Fetched& fetched);

}  // namespace evenkeel
