// A gRPC call ends in a status, in time, whatever its backend does.
#pragma once

#include "evenkeel/base/loop.h"
#include "evenkeel/http/message.h"

namespace evenkeel {

/// What a gRPC client may rely on; other requests pass untouched.
///
/// - `grpc-timeout` is the deadline of the whole call, counted from its first byte: until the
///   response head the answer is `deadline_exceeded`, later the trailers say so. Either way the
///   backend's part is dropped at once. What is left of it is told to the backend.
/// - A response that is no gRPC (a gateway's 502, a page of HTML) becomes trailers-only, by grpc's
///   http-grpc-status-mapping.
/// - A backend that fails in the middle, or that ends without a status, gets its trailers from us:
///   UNAVAILABLE and UNKNOWN.
/// - `about.grpc_status` is what the client was told; CANCELLED where it did not stay to hear.
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
