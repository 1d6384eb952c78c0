#include "evenkeel/scaling/external_scaler.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "evenkeel/http/grpc.h"
#include "scaling/messages.h"

namespace evenkeel {
namespace {

namespace pb = external_scaler;

constexpr std::string_view service = "/externalscaler.ExternalScaler/";
constexpr std::size_t max_message_bytes = 64 << 10;
constexpr std::string_view metric_prefix = "evenkeel-";

GrpcError invalid(std::string message) {
  return {.status = GrpcStatus::invalid_argument, .message = std::move(message)};
}

/// The pool that the metadata of a trigger means.
GrpcResult<PoolScaling> find_pool(const ScalingSnapshot& snapshot, const pb::ScaledObjectRef& ref) {
  const auto named = ref.scaler_metadata().find("pool");
  if (named != ref.scaler_metadata().end()) {
    const PoolScaling* const found = snapshot.find(named->second);
    if (found != nullptr) return *found;
    return GrpcError{GrpcStatus::not_found,
                     fmt::format("no pool '{}' has `scaling`", named->second)};
  }
  if (snapshot.pools.size() == 1) return snapshot.pools.front();
  if (snapshot.pools.empty())
    return GrpcError{GrpcStatus::not_found, "no pool of this evenkeel has `scaling`"};
  return invalid("several pools have `scaling`: write `pool: NAME` in the trigger's metadata");
}

bool is_active(const PoolScaling& pool) { return pool.plan.desired > 0; }

std::string metric_name(const PoolScaling& pool) { return std::string(metric_prefix) + pool.pool; }

std::string activity_of(const PoolScaling& pool) {
  pb::IsActiveResponse answer;
  answer.set_result(is_active(pool));
  return answer.SerializeAsString();
}

std::string metric_spec_of(const PoolScaling& pool) {
  pb::GetMetricSpecResponse answer;
  pb::MetricSpec& spec = *answer.add_metric_specs();
  spec.set_metric_name(metric_name(pool));
  // The value is the number of replicas, so the autoscaler's ratio over the target is too.
  spec.set_target_size(1);
  spec.set_target_size_float(1);
  return answer.SerializeAsString();
}

std::string metrics_of(const PoolScaling& pool) {
  pb::GetMetricsResponse answer;
  pb::MetricValue& value = *answer.add_metric_values();
  value.set_metric_name(metric_name(pool));
  value.set_metric_value(pool.plan.desired);
  value.set_metric_value_float(pool.plan.desired);
  return answer.SerializeAsString();
}

Response answer(const GrpcResult<PoolScaling>& pool,
                std::string (*message_of)(const PoolScaling&)) {
  if (const auto* failure = std::get_if<GrpcError>(&pool)) return grpc_error_response(*failure);
  return grpc_unary_response(message_of(std::get<PoolScaling>(pool)));
}

Response respond(const ScalingSnapshot& snapshot, std::string_view method,
                 const std::string& message) {
  if (method == "GetMetrics") {
    pb::GetMetricsRequest request;
    if (!request.ParseFromString(message))
      return grpc_error_response(invalid("the message is no GetMetricsRequest"));
    return answer(find_pool(snapshot, request.scaled_object_ref()), metrics_of);
  }
  const bool asks_activity = method == "IsActive";
  if (!asks_activity && method != "GetMetricSpec")
    return grpc_error_response({GrpcStatus::unimplemented, "unknown method"});
  pb::ScaledObjectRef ref;
  if (!ref.ParseFromString(message))
    return grpc_error_response(invalid("the message is no ScaledObjectRef"));
  return answer(find_pool(snapshot, ref), asks_activity ? activity_of : metric_spec_of);
}

Response not_grpc() {
  Response response{.status = 404};
  response.fields.add("content-type", "text/plain; charset=utf-8");
  response.body = make_body("this listener answers KEDA's external scaler, over gRPC\n");
  return response;
}

}  // namespace

Task<Result<Response>> ExternalScaler::handle(Request& request) {
  if (!is_grpc(request)) return Result<Response>(not_grpc());
  if (request.method != "POST" || !request.path.starts_with(service))
    return Result<Response>(grpc_error_response({GrpcStatus::unimplemented, "unknown service"}));
  if (feed_ == nullptr)
    return Result<Response>(grpc_error_response({GrpcStatus::unavailable, "nothing is scaled"}));
  std::string method(request.path.substr(service.size()));
  if (method != "StreamIsActive") return call(request, std::move(method));
  MessageHandler handler = [this](std::string message, GrpcStreamWriter& writer) {
    return stream_activity(std::move(message), writer);
  };
  return Result<Response>(
      grpc_stream_response(loop_, request.body.get(), std::move(handler), max_message_bytes));
}

Task<Result<Response>> ExternalScaler::call(Request& request, std::string method) {
  auto message = co_await read_unary_message(request, max_message_bytes);
  if (!message) co_return std::move(message.error());
  co_return respond(*feed_->snapshot(), method, *message);
}

/// Tells at once whether the pool is to have any replica, and whenever that changes.
Task<void> ExternalScaler::stream_activity(std::string message, GrpcStreamWriter& writer) {
  pb::ScaledObjectRef ref;
  if (!ref.ParseFromString(message)) {
    writer.fail(invalid("the message is no ScaledObjectRef"));
    co_return;
  }
  ScalingFeed::Watcher watcher(*feed_, loop_);
  std::optional<bool> told;
  while (!feed_->closed()) {
    const auto pool = find_pool(*feed_->snapshot(), ref);
    if (const auto* failure = std::get_if<GrpcError>(&pool)) {
      writer.fail(*failure);
      co_return;
    }
    const bool active = is_active(std::get<PoolScaling>(pool));
    if (told != active) writer.write(activity_of(std::get<PoolScaling>(pool)));
    told = active;
    co_await watcher.changed();
  }
  writer.fail({.status = GrpcStatus::unavailable, .message = "evenkeel shuts down"});
}

}  // namespace evenkeel
