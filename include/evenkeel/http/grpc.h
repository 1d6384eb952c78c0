// The parts of gRPC that a proxy reads and writes: status codes, deadlines and error messages
// (grpc/doc/PROTOCOL-HTTP2.md, statuscodes.md, http-grpc-status-mapping.md). Calls and messages
// themselves are ordinary requests, responses and bodies.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "evenkeel/base/clock.h"
#include "evenkeel/http/message.h"

namespace evenkeel {

/// The status codes of gRPC, by number.
enum class GrpcStatus : std::uint8_t {
  ok = 0,
  cancelled = 1,
  unknown = 2,
  invalid_argument = 3,
  deadline_exceeded = 4,
  not_found = 5,
  already_exists = 6,
  permission_denied = 7,
  resource_exhausted = 8,
  failed_precondition = 9,
  aborted = 10,
  out_of_range = 11,
  unimplemented = 12,
  internal = 13,
  unavailable = 14,
  data_loss = 15,
  unauthenticated = 16,
};

inline constexpr int grpc_status_count = static_cast<int>(GrpcStatus::unauthenticated) + 1;

/// The number as `grpc-status` carries it. Static storage.
std::string_view grpc_status_digits(GrpcStatus status);

/// The status of a `grpc-status` value; nothing if it is not the number of a status.
std::optional<GrpcStatus> parse_grpc_status(std::string_view value);

/// True if the content type is `application/grpc`, with or without a suffix such as `+proto` or
/// parameters. Not gRPC-Web, which carries its trailers in the body.
bool is_grpc_content(std::string_view content_type);
bool is_grpc(const Request& request);

/// What a gRPC client makes of a response that is not gRPC, by its HTTP status.
GrpcStatus grpc_status_of_http(int status);

/// What a gRPC client makes of a stream that the server resets with this HTTP/2 error code.
GrpcStatus grpc_status_of_reset(std::uint32_t code);

/// Parses a `grpc-timeout`: one to eight digits and a unit (H, M, S, m, u or n). Nothing if it is
/// malformed; the longest Duration if it is longer.
std::optional<Duration> parse_grpc_timeout(std::string_view value);

/// Storage for the text of a `grpc-timeout`.
using GrpcTimeoutText = std::array<char, 9>;
/// A `grpc-timeout` in the finest unit that fits, rounded up; at least "1n", since the format has
/// no zero.
std::string_view write_grpc_timeout(Duration timeout, GrpcTimeoutText& text);

/// Sets `grpc-timeout` to the time from `now` to the request's deadline. REQUIRES: it has one.
void rewrite_grpc_timeout(Request& request, Instant now);

/// Appends `text` as a `grpc-message`: percent-encodes what is not printable ASCII.
void append_grpc_message(std::string& out, std::string_view text);

}  // namespace evenkeel
