// What of gRPC a proxy reads and writes: its status codes, its deadline, its message text
// (grpc/doc/PROTOCOL-HTTP2.md, statuscodes.md, http-grpc-status-mapping.md). Calls and messages
// themselves are requests, responses and bodies as any others.
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

/// The number as it stands in `grpc-status`. Lives for ever.
std::string_view grpc_status_digits(GrpcStatus status);

/// The status that a `grpc-status` value says; nothing where it is not the number of one.
std::optional<GrpcStatus> parse_grpc_status(std::string_view value);

/// `application/grpc`, alone or followed by `+proto` and the like or by parameters. Not gRPC-Web,
/// which carries its trailers in the body.
bool is_grpc_content(std::string_view content_type);
bool is_grpc(const Request& request);

/// What a response that is no gRPC means to a gRPC client, by its HTTP status.
GrpcStatus grpc_status_of_http(int status);

/// A `grpc-timeout`: one to eight digits and a unit (H, M, S, m, u or n). Nothing where malformed;
/// what no Duration can hold is the longest that is.
std::optional<Duration> parse_grpc_timeout(std::string_view value);

/// Storage for the text of a `grpc-timeout`.
using GrpcTimeoutText = std::array<char, 9>;
/// A `grpc-timeout` in the finest unit that has room, rounded up; at least "1n", for there is no
/// zero on the wire.
std::string_view write_grpc_timeout(Duration timeout, GrpcTimeoutText& text);

/// States in `grpc-timeout` what is left, at `now`, until the request's deadline.
/// REQUIRES: it has one.
void rewrite_grpc_timeout(Request& request, Instant now);

/// Appends `text` as a `grpc-message`: percent-encoded wherever it is not printable ASCII.
void append_grpc_message(std::string& out, std::string_view text);
/// The text of a `grpc-message`. What is not a valid escape stays as it stands.
std::string decode_grpc_message(std::string_view value);

}  // namespace evenkeel
