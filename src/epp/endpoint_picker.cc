#include "evenkeel/epp/endpoint_picker.h"

#include "epp/health.h"
#include "epp/process_stream.h"
#include "evenkeel/http/grpc.h"

namespace evenkeel {
namespace {

constexpr std::string_view process_path = "/envoy.service.ext_proc.v3.ExternalProcessor/Process";
constexpr std::string_view check_path = "/grpc.health.v1.Health/Check";
constexpr std::string_view watch_path = "/grpc.health.v1.Health/Watch";

Error no_such_call() {
  return {.fault = Fault::no_route,
          .side = Side::client,
          .detail =
              "this listener is an endpoint picker: it answers ext_proc "
              "(envoy.service.ext_proc.v3.ExternalProcessor) and grpc.health.v1.Health, over "
              "gRPC"};
}

}  // namespace

Task<Result<Response>> EndpointPicker::handle(Request& request) {
  if (!is_grpc(request) || request.method != "POST") return Result<Response>(no_such_call());
  if (request.path == check_path) return check_health(request, loop_, connections_.draining());
  if (request.path == watch_path) return watch_health(request, loop_, connections_);
  if (request.path != process_path) return Result<Response>(no_such_call());
  request.info.identity.is_streaming = true;  // it may pause, and its size is that of many messages
  Response response;
  response.fields.add("content-type", "application/grpc");
  response.body = std::make_unique<ProcessStream>(
      ProcessStream::Context{loop_, *plan_, config_, listener_}, request);
  return Result<Response>(std::move(response));
}

}  // namespace evenkeel
