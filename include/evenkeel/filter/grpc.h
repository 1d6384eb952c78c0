// Makes every gRPC call end in a status, in time, whatever its backend does.
#pragma once

#include "evenkeel/base/loop.h"
#include "evenkeel/http/message.h"

namespace evenkeel {

/// Applies gRPC's rules to gRPC calls. Other requests pass unchanged.
///
/// - `grpc-timeout` is the deadline of the whole call, counted from its first byte. Until the
///   response head the result is the error `deadline_exceeded`, afterwards trailers with that
///   status. Either way the backend's part is dropped at once. The backend gets the time that
///   remains.
/// - A response that is not gRPC (a gateway's 502, an HTML page) becomes trailers-only, by gRPC's
///   http-grpc-status-mapping.
/// - When a backend fails during its response, or ends it without a status, the filter adds
/// trailers:
///   UNAVAILABLE or UNKNOWN.
/// - `outcome.grpc_status` is the status that the client got; CANCELLED if it left before.
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
