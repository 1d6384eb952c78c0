// The one table that turns a fault into a status, and an error into an answer that the client's
// library understands.
#pragma once

#include <cstdint>
#include <string_view>

#include "evenkeel/base/result.h"
#include "evenkeel/http/grpc.h"
#include "evenkeel/http/message.h"

namespace evenkeel {

/// The status that a fault is answered with (facts: 502 invalid or reset, 503 no capacity,
/// 504 time-outs, 429 admission). 499 (client_gone) is logged, never sent.
int status_of(Fault fault);

/// The same for a gRPC client: what grpc's own mapping makes of the HTTP status, and something more
/// telling where gRPC has a word for it.
GrpcStatus grpc_status_of(Fault fault);

/// The standard phrase of a status ("Not Found"), or "".
std::string_view phrase_of(int status);

/// How the client's library wants to be told of an error.
enum class ErrorFormat : std::uint8_t { plain, openai, kserve, grpc };

/// By the path alone, for what never became a request: never gRPC.
ErrorFormat error_format_of(std::string_view path);
ErrorFormat error_format_of(const Request& request);

/// The answer to a request that failed: OpenAI's error object on `/v1/...`, KServe's on `/v2/...`,
/// plain text otherwise; always with `x-evenkeel-reason`, and `retry-after`, `retry-after-ms` and
/// `x-should-retry` on 429 and 503. To gRPC: status 200, `grpc-status` and `grpc-message` among the
/// fields and no body, which is what gRPC calls trailers-only.
Response error_response(const Error& error, ErrorFormat format);

/// A gRPC answer that is over with its head. `message` is text as people read it.
Response grpc_trailers_only(GrpcStatus status, std::string_view message);

}  // namespace evenkeel
