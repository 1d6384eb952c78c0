// KEDA's external scaler over gRPC (externalscaler.ExternalScaler), for its triggers `external` and
// `external-push`.
#pragma once

#include <string>
#include <string_view>
#include <variant>

#include "evenkeel/base/loop.h"
#include "evenkeel/http/message.h"
#include "evenkeel/inference/grpc_response.h"
#include "evenkeel/scaling/scaling_feed.h"

namespace evenkeel {

/// Tells KEDA how many replicas a pool needs: IsActive, StreamIsActive, GetMetricSpec, GetMetrics.
/// A trigger's metadata names the `pool`; without it there must be one pool with `scaling`.
///
/// Thread: the loop's. Outlives its responses.
class ExternalScaler final : public Handler {
 public:
  /// `feed` null: there is none, and no call succeeds.
  ExternalScaler(ScalingFeed* feed, Loop& loop) : feed_(feed), loop_(loop) {}

  Task<Result<Response>> handle(Request& request) override;

 private:
  Task<Result<Response>> call(Request& request, std::string method);
  Task<void> stream_activity(std::string message, GrpcStreamWriter& writer);

  ScalingFeed* feed_;
  Loop& loop_;
};

}  // namespace evenkeel
