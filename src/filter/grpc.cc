#include "evenkeel/filter/grpc.h"

#include <algorithm>
#include <string>
#include <utility>

#include "evenkeel/base/deadline.h"
#include "evenkeel/base/path.h"
#include "evenkeel/http/grpc.h"
#include "evenkeel/http/status.h"

namespace evenkeel {
namespace {

constexpr std::string_view status_name = "grpc-status";
constexpr std::string_view message_name = "grpc-message";
constexpr std::string_view reason_name = "x-evenkeel-reason";
constexpr std::uint8_t unknown_status_number = grpc_status_count;

std::uint8_t number_of(GrpcStatus status) { return static_cast<std::uint8_t>(status); }

/// The number in a backend's `grpc-status`.
std::uint8_t parsed_status_number(std::string_view value) {
  const auto status = parse_grpc_status(value);
  return status ? number_of(*status) : unknown_status_number;
}

Error deadline_error() {
  return {.fault = Fault::deadline_exceeded, .detail = "the deadline of the call has passed"};
}

/// The body of a call's response, whose last chunk always carries a status.
class CallBody final : public Body {
 public:
  CallBody(Loop& loop, BodyPtr body, RequestInfo& info)
      : loop_(loop), body_(std::move(body)), info_(info) {}

  Task<Result<Chunk>> read() override {
    if (info_.timings.deadline <= loop_.now()) return Result<Chunk>(fail(deadline_error()));
    auto next = body_->read();
    if (next.ready()) return on_chunk(next.take());
    return wait(std::move(next));
  }
  // The length is unknown even if the backend announced one, because trailers follow.

 private:
  Task<Result<Chunk>> wait(Task<Result<Chunk>> next) {
    co_await UntilDoneOrDeadline(next, loop_, info_.timings.deadline);
    if (!next.ready()) {
      next.drop();
      co_return fail(deadline_error());
    }
    co_return on_chunk(next.take());
  }

  Result<Chunk> on_chunk(Result<Chunk> got) {
    if (!got) {
      if (got.error().fault == Fault::client_gone) return got;
      return fail(got.error());
    }
    return got->last ? end(*got) : *got;
  }

  /// Handles the backend's last chunk.
  Chunk end(Chunk chunk) {
    const auto status =
        chunk.trailers == nullptr ? std::nullopt : chunk.trailers->value(status_name);
    if (status) {
      info_.outcome.grpc_status = parsed_status_number(*status);
      return chunk;
    }
    if (chunk.trailers != nullptr) {
      for (const Field& field : *chunk.trailers) trailers_.add(field);
    }
    info_.outcome.fault = Fault::backend_protocol;
    write_trailers(GrpcStatus::unknown, "the server ended the call without a status");
    chunk.trailers = &trailers_;
    return chunk;
  }

  /// Ends the body with an error status, and cancels the request to the backend.
  Chunk fail(const Error& error) {
    info_.outcome.fault = error.fault;
    body_.reset();
    write_trailers(grpc_status_of(error), error.detail);
    return {.last = true, .trailers = &trailers_};
  }

  /// REQUIRES: info_.outcome.fault is set.
  void write_trailers(GrpcStatus status, std::string_view message) {
    info_.outcome.grpc_status = number_of(status);
    std::string escaped;
    append_grpc_message(escaped, message);
    trailers_.add(status_name, grpc_status_digits(status));
    trailers_.add(message_name, trailers_.keep(escaped));
    trailers_.add(reason_name, to_string(*info_.outcome.fault));
  }

  Loop& loop_;
  BodyPtr body_;
  RequestInfo& info_;
  Fields trailers_;  // if the backend sent none
};

/// A trailers-only response in place of one that is not gRPC, or that lacks a status.
Response as_trailers_only(Response response, GrpcStatus status, std::string_view message,
                          RequestInfo& info) {
  info.outcome.grpc_status = number_of(status);
  Response answer = grpc_trailers_only(status, message);
  if (info.outcome.fault) answer.fields.add(reason_name, to_string(*info.outcome.fault));
  for (const Field& field : response.fields) {
    // Keeps the x- fields: they describe the request or the server that answered.
    if (field.name().starts_with("x-")) answer.fields.add_copy(field);
  }
  return answer;
}

Response from_non_grpc(Response response, RequestInfo& info) {
  const int status = response.status;
  if (const auto given = response.fields.value(status_name)) {
    // Sent by a gateway that knows gRPC, but not that its HTTP status is always 200.
    const auto known = parse_grpc_status(*given);
    const auto message = response.fields.value(message_name).value_or("");
    return as_trailers_only(std::move(response), known.value_or(GrpcStatus::unknown),
                            percent_decoded(message), info);
  }
  if (status != 200) {
    const std::string message = "the server answered HTTP " + std::to_string(status);
    return as_trailers_only(std::move(response), grpc_status_of_http(status), message, info);
  }
  const auto type = response.fields.value(FieldId::content_type);
  std::string message = "the server answered with ";
  message += type ? std::string(*type) : std::string("no content type");
  info.outcome.fault = Fault::backend_protocol;
  return as_trailers_only(std::move(response), GrpcStatus::unknown, message, info);
}

bool is_grpc(const Response& response) {
  const auto type = response.fields.value(FieldId::content_type);
  return response.status == 200 && type && is_grpc_content(*type);
}

bool has_no_body(const Response& response) {
  return response.body == nullptr || response.body->length() == 0;
}

Response as_grpc(Loop& loop, Response response, RequestInfo& info) {
  if (!is_grpc(response)) return from_non_grpc(std::move(response), info);
  if (const auto status = response.fields.value(status_name)) {  // trailers-only
    info.outcome.grpc_status = parsed_status_number(*status);
    return response;
  }
  if (has_no_body(response)) {
    info.outcome.fault = Fault::backend_protocol;
    return as_trailers_only(std::move(response), GrpcStatus::unknown,
                            "the server ended the call without a status", info);
  }
  response.body = std::make_unique<CallBody>(loop, std::move(response.body), info);
  return response;
}

}  // namespace

Task<Result<Response>> GrpcFilter::handle(Request& request, Handler& next) {
  if (!is_grpc(request)) [[likely]]
    return next.handle(request);
  return call(request, next);
}

Task<Result<Response>> GrpcFilter::call(Request& request, Handler& next) {
  RequestInfo& info = request.info;
  info.outcome.grpc_status = number_of(GrpcStatus::cancelled);  // if the client leaves now
  request.wants_trailers = true;                                // gRPC requires it
  if (const auto timeout = request.fields.value("grpc-timeout")) {
    auto left = parse_grpc_timeout(*timeout);
    if (!left) {
      // INTERNAL, as gRPC's own servers answer it: the status of a call that is reset for that.
      constexpr std::uint32_t protocol_error = 1;  // RFC 9113, section 7
      co_return Error{.fault = Fault::bad_request,
                      .side = Side::client,
                      .reset_code = protocol_error,
                      .detail = "malformed grpc-timeout"};
    }
    left = std::min(*left, info.timings.max_call);
    if (*left < never - info.timings.started) info.timings.deadline = info.timings.started + *left;
    if (info.timings.deadline <= loop_.now()) co_return deadline_error();
  }

  auto answer = next.handle(request);
  co_await UntilDoneOrDeadline(answer, loop_, info.timings.deadline);
  if (!answer.ready()) {
    answer.drop();
    co_return deadline_error();
  }
  auto response = answer.take();
  if (!response) co_return std::move(response.error());
  co_return as_grpc(loop_, std::move(*response), info);
}

}  // namespace evenkeel
