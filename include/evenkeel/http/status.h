// The one table from faults to status codes, and error responses that client libraries understand.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "evenkeel/base/result.h"
#include "evenkeel/http/grpc.h"
#include "evenkeel/http/message.h"

namespace evenkeel {

/// The status for a fault: 502 for an invalid or broken response, 503 for no capacity, 504 for
/// timeouts, 429 for a full queue. 499 (client_gone) is logged, never sent.
int status_of(Fault fault);

/// The same for a gRPC client: gRPC's own mapping of the HTTP status, or a more specific code where
/// gRPC has one.
GrpcStatus grpc_status_of(Fault fault);
/// The same for an error, which may have a more exact cause: how the backend reset the stream.
GrpcStatus grpc_status_of(const Error& error);

/// The standard phrase of a status ("Not Found"), or "".
std::string_view phrase_of(int status);

/// The shape of error that a client's library parses.
enum class ErrorFormat : std::uint8_t { plain, openai, anthropic, kserve, ollama, grpc };

/// The format by the path alone, for a request that was not parsed completely: never gRPC.
ErrorFormat error_format_of(std::string_view path);
/// Never gRPC for an extended CONNECT: its status 200 would open a tunnel. Anthropic's below
/// `/v1/models` for a client with `anthropic-version`: both APIs have that path.
ErrorFormat error_format_of(const Request& request);

/// The response to a request that failed: Anthropic's error object on `/v1/messages`, OpenAI's on
/// other `/v1/...`, KServe's on `/v2/...`, Ollama's on `/api/...`, each also behind a prefix; plain
/// text elsewhere. Always with `x-evenkeel-reason`;
/// on 429 and 503 also `retry-after`, `retry-after-ms` and `x-should-retry`. For gRPC: status 200
/// with `grpc-status` and `grpc-message` among the fields and no body, which gRPC calls
/// trailers-only.
Response error_response(const Error& error, ErrorFormat format);

/// The event that ends a stream of server-sent events that broke, in the shape that a client's
/// library parses within a stream. Not followed by `[DONE]`: the stream is not complete.
std::string error_event(const Error& error, ErrorFormat format);
/// The same for a stream of JSON lines, as Ollama's.
std::string error_line(const Error& error);

/// A gRPC response without a body ("trailers-only"). `message` is plain text, not yet encoded.
Response grpc_trailers_only(GrpcStatus status, std::string_view message);

}  // namespace evenkeel
