#include "evenkeel/filter/grpc.h"

#include <algorithm>
#include <string>
#include <utility>

#include "evenkeel/base/deadline.h"
#include "evenkeel/http/grpc.h"
#include "evenkeel/http/status.h"

namespace evenkeel {
namespace {

constexpr std::string_view status_name = "grpc-status";
constexpr std::string_view message_name = "grpc-message";
constexpr std::string_view reason_name = "x-evenkeel-reason";
constexpr std::uint8_t no_known_status = grpc_status_count;

std::uint8_t number_of(GrpcStatus status) { return static_cast<std::uint8_t>(status); }

/// What a backend's `grpc-status` says.
std::uint8_t told(std::string_view value) {
  const auto status = parse_grpc_status(value);
  return status ? number_of(*status) : no_known_status;
}

Error too_late() {
  return {.fault = Fault::deadline_exceeded, .detail = "the deadline of the call has passed"};
}

/// The body of a call's response: its last chunk carries a status.
class CallBody final : public Body {
 public:
  CallBody(Loop& loop, BodyPtr body, About& about)
      : loop_(loop), body_(std::move(body)), about_(about) {}

  Task<Result<Chunk>> read() override {
    if (about_.deadline <= loop_.now()) return Result<Chunk>(fail(too_late()));
    auto next = body_->read();
    if (next.ready()) return arrived(next.take());
    return wait(std::move(next));
  }
  // Of unknown length, whatever the backend announced: trailers follow.

 private:
  Task<Result<Chunk>> wait(Task<Result<Chunk>> next) {
    co_await UntilDoneOrDeadline(next, loop_, about_.deadline);
    if (!next.ready()) {
      next.drop();
      co_return fail(too_late());
    }
    co_return arrived(next.take());
  }

  Result<Chunk> arrived(Result<Chunk> got) {
    if (!got) {
      if (got.error().fault == Fault::client_gone) return got;
      return fail(got.error());
    }
    return got->last ? end(*got) : *got;
  }

  /// The backend's last chunk.
  Chunk end(Chunk chunk) {
    const auto status =
        chunk.trailers == nullptr ? std::nullopt : chunk.trailers->value(status_name);
    if (status) {
      about_.grpc_status = told(*status);
      return chunk;
    }
    if (chunk.trailers != nullptr) {
      for (const Field& field : *chunk.trailers)
        trailers_.add(field.name(), field.value(), field.id);
    }
    about_.fault = Fault::backend_protocol;
    conclude(GrpcStatus::unknown, "the server ended the call without a status");
    chunk.trailers = &trailers_;
    return chunk;
  }

  /// The end that the backend did not give: by now, nothing of it is needed any more.
  Chunk fail(const Error& error) {
    about_.fault = error.fault;
    body_.reset();
    conclude(grpc_status_of(error.fault), error.detail);
    return {.last = true, .trailers = &trailers_};
  }

  /// REQUIRES: about_.fault says why.
  void conclude(GrpcStatus status, std::string_view message) {
    about_.grpc_status = number_of(status);
    std::string escaped;
    append_grpc_message(escaped, message);
    trailers_.add(status_name, digits_of(status));
    trailers_.add(message_name, trailers_.keep(escaped));
    trailers_.add(reason_name, word_of(*about_.fault));
  }

  Loop& loop_;
  BodyPtr body_;
  About& about_;
  Fields trailers_;  // where the backend sent none
};

/// A trailers-only answer in place of one that is no gRPC, or not the kind that may end with its
/// head.
Response restated(Response response, GrpcStatus status, std::string_view message, About& about) {
  about.grpc_status = number_of(status);
  Response answer = grpc_trailers_only(status, message);
  if (about.fault) answer.fields.add(reason_name, word_of(*about.fault));
  for (const Field& field : response.fields) {
    // What a gateway says of itself and of the request is as true as before.
    if (field.name().starts_with("x-")) answer.fields.add_copy(field.name(), field.value());
  }
  return answer;
}

Response no_grpc(Response response, About& about) {
  const int status = response.status;
  if (const auto given = response.fields.value(status_name)) {
    // A gateway that knows gRPC, but not that its HTTP status is always 200.
    const auto known = parse_grpc_status(*given);
    const auto message = response.fields.value(message_name).value_or("");
    return restated(std::move(response), known.value_or(GrpcStatus::unknown),
                    decode_grpc_message(message), about);
  }
  if (status != 200) {
    const std::string message = "the server answered HTTP " + std::to_string(status);
    return restated(std::move(response), grpc_status_of_http(status), message, about);
  }
  const auto type = response.fields.value(FieldId::content_type);
  std::string message = "the server answered with ";
  message += type ? std::string(*type) : std::string("no content type");
  about.fault = Fault::backend_protocol;
  return restated(std::move(response), GrpcStatus::unknown, message, about);
}

bool is_grpc(const Response& response) {
  const auto type = response.fields.value(FieldId::content_type);
  return response.status == 200 && type && is_grpc_content(*type);
}

bool is_over(const Response& response) {
  return response.body == nullptr || response.body->length() == 0;
}

Response as_grpc(Loop& loop, Response response, About& about) {
  if (!is_grpc(response)) return no_grpc(std::move(response), about);
  if (const auto status = response.fields.value(status_name)) {  // trailers-only
    about.grpc_status = told(*status);
    return response;
  }
  if (is_over(response)) {
    about.fault = Fault::backend_protocol;
    return restated(std::move(response), GrpcStatus::unknown,
                    "the server ended the call without a status", about);
  }
  response.body = std::make_unique<CallBody>(loop, std::move(response.body), about);
  return response;
}

}  // namespace

Task<Result<Response>> GrpcFilter::handle(Request& request, Handler& next) {
  if (!is_grpc(request)) [[likely]]
    return next.handle(request);
  return call(request, next);
}

Task<Result<Response>> GrpcFilter::call(Request& request, Handler& next) {
  About& about = request.about;
  about.grpc_status = number_of(GrpcStatus::cancelled);  // until its client hears of another
  request.wants_trailers = true;                         // there is no gRPC without
  if (const auto timeout = request.fields.value("grpc-timeout")) {
    const auto left = parse_grpc_timeout(*timeout);
    if (!left) {
      co_return Error{
          .fault = Fault::bad_request, .side = Side::client, .detail = "malformed grpc-timeout"};
    }
    if (*left < never - about.started) about.deadline = about.started + *left;
    if (about.deadline <= loop_.now()) co_return too_late();
  }

  auto answer = next.handle(request);
  co_await UntilDoneOrDeadline(answer, loop_, about.deadline);
  if (!answer.ready()) {
    answer.drop();
    co_return too_late();
  }
  auto response = answer.take();
  if (!response) co_return std::move(response.error());
  co_return as_grpc(loop_, std::move(*response), about);
}

}  // namespace evenkeel
