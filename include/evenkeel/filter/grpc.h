// Ends every gRPC call with a status before its deadline, whatever its backend does.
#pragma once

#include "evenkeel/base/loop.h"
#include "evenkeel/http/message.h"

namespace evenkeel {

/// Applies gRPC's rules to gRPC calls. Other requests pass unchanged.
///
/// - `grpc-timeout`, at most `timings.max_call`, limits the whole call, counted from its first
/// byte. When it expires before the
///   response head, the result is the error `deadline_exceeded`; afterwards, trailers with that
///   status. Either way the request to the backend is cancelled. The backend gets the time that
///   remains as its `grpc-timeout`.
/// - A response that is not gRPC (a gateway's 502, an HTML page) becomes trailers-only, by gRPC's
///   http-grpc-status-mapping.
/// - When a backend fails during its response, the filter adds trailers with a status such as
///   UNAVAILABLE;
///   when it ends the response without a status, UNKNOWN.
/// - `outcome.grpc_status` is the status that the client got; CANCELLED if it disconnected.
///
/// Thread: the loop's.
class GrpcFilter final : public Filter {
 public:
  explicit GrpcFilter(Loop& loop) : loop_(loop) {}
  Task<Result<Response>> handle(Request& request, Handler& next) override;

 private:
  Task<Result<Response>> call(Request& request, Handler& next);

  Loop& loop_;
};

}  // namespace evenkeel
