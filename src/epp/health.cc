#include "epp/health.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>

#include "evenkeel/http/grpc.h"
#include "evenkeel/http/status.h"
#include "evenkeel/inference/grpc_message.h"
#include "evenkeel/inference/kserve_grpc.h"

namespace evenkeel {
namespace {

constexpr std::size_t max_message_bytes = 4096;
/// How often a watched listener is looked at.
constexpr Duration watch_interval = std::chrono::milliseconds(250);

bool is_known(std::string_view service) {
  constexpr std::array<std::string_view, 5> services = {
      "", "liveness", "readiness", "envoy.service.ext_proc.v3.ExternalProcessor",
      "inference-extension"};
  return std::ranges::find(services, service) != services.end();
}

/// A draining picker is alive, but gets no new streams.
ServingStatus status_of(std::string_view service, bool draining) {
  if (!is_known(service)) return ServingStatus::service_unknown;
  return draining && service != "liveness" ? ServingStatus::not_serving : ServingStatus::serving;
}

/// Reads the name of the service that is asked for.
Task<Result<std::string>> read_service(Body* body) {
  const Error malformed{.fault = Fault::bad_request,
                        .side = Side::client,
                        .detail = "the call has no HealthCheckRequest"};
  GrpcMessageReader reader(max_message_bytes);
  bool last = body == nullptr;
  while (!last) {
    auto next = body->read();
    auto chunk = co_await next;
    if (!chunk) co_return std::move(chunk.error());
    last = chunk->last;
    std::string_view bytes = chunk->bytes;
    const auto step = reader.read(bytes);
    if (step == GrpcMessageReader::Step::message && !reader.compressed())
      co_return decode_health_check_request(reader.message());
    if (step != GrpcMessageReader::Step::more) break;
  }
  co_return Error(malformed);
}

/// The statuses of a service. Of Check, the body ends after one.
class StatusBody final : public Body {
 public:
  /// `connections` null: one status.
  StatusBody(Loop& loop, std::string service, ServingStatus status,
             const FrontendCallbacks* connections)
      : loop_(loop), service_(std::move(service)), next_(status), connections_(connections) {}

  Task<Result<Chunk>> read() override {
    if (next_) return Result<Chunk>(write());
    return wait();
  }

 private:
  Chunk write() {
    const ServingStatus status = *std::exchange(next_, std::nullopt);
    frame_.clear();
    append_grpc_frame(frame_, encode(status));
    const bool last = connections_ == nullptr || connections_->draining();
    if (!last) return {.bytes = frame_};
    trailers_.add("grpc-status", grpc_status_digits(GrpcStatus::ok));
    return {.bytes = frame_, .last = true, .trailers = &trailers_};
  }

  Task<Result<Chunk>> wait() {
    while (!connections_->draining()) co_await loop_.sleep_for(watch_interval);
    next_ = status_of(service_, true);
    co_return write();
  }

  Loop& loop_;
  const std::string service_;
  std::optional<ServingStatus> next_;
  const FrontendCallbacks* const connections_;
  std::string frame_;
  Fields trailers_;
};

Response response_with(BodyPtr body) {
  Response response;
  response.fields.add("content-type", "application/grpc");
  response.body = std::move(body);
  return response;
}

}  // namespace

Task<Result<Response>> check_health(Request& request, Loop& loop, bool draining) {
  auto reading = read_service(request.body.get());
  auto service = co_await reading;
  if (!service) co_return std::move(service.error());
  const ServingStatus status = status_of(*service, draining);
  if (status == ServingStatus::service_unknown)
    co_return grpc_trailers_only(GrpcStatus::not_found, "unknown service " + *service);
  co_return response_with(std::make_unique<StatusBody>(loop, std::move(*service), status, nullptr));
}

Task<Result<Response>> watch_health(Request& request, Loop& loop,
                                    const FrontendCallbacks& connections) {
  auto reading = read_service(request.body.get());
  auto service = co_await reading;
  if (!service) co_return std::move(service.error());
  const ServingStatus status = status_of(*service, connections.draining());
  co_return response_with(
      std::make_unique<StatusBody>(loop, std::move(*service), status, &connections));
}

}  // namespace evenkeel
