// Formats the spans of one request as OTLP's JSON. docs/observability.md describes them.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "evenkeel/base/clock.h"
#include "evenkeel/stats/access_log_formatter.h"

namespace evenkeel {

/// What the spans have beyond the request's line in the access log.
struct RequestSpans {
  std::string_view trace_id;  ///< 32 hexadecimal digits
  std::string_view parent;    ///< 16 of them: the client's span; empty: none
  std::uint64_t first = 0;    ///< the id of the request's span; the others have the next ones
  std::uint64_t before_attempts = 0;  ///< how many ids lie between it and those of attempts
  std::string_view picker;            ///< of the last attempt's pool
  bool secure = false;                ///< the client's connection uses TLS
  bool uses_gen_ai_names = false;     ///< of OpenTelemetry, for attributes of models
  Instant started{};                  ///< when `AccessLogEntry::time` was
  Instant queued{};                   ///< it began to wait; a default Instant: it did not

  bool has_waited() const { return queued != Instant{}; }
};

/// Large enough for the spans of any request. Leave it uninitialised.
using SpanBuffer = std::array<char, 44 * 1024>;

/// True if a request failed, and not through its client's fault alone. Values: of AccessLogEntry.
bool has_failed(int status, bool aborted, std::optional<std::uint8_t> grpc_status);

/// One span of the request as its client sees it, one of its wait in a queue if there was any, and
/// one for each attempt. Long values are cut and end in "...".
std::string_view format_spans(const AccessLogEntry& entry, const RequestSpans& spans,
                              SpanBuffer& buffer);

}  // namespace evenkeel
