// What became of one request of a load.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "evenkeel/base/clock.h"
#include "evenkeel/base/result.h"
#include "evenkeel/load/load.h"
#include "evenkeel/load/request_generator.h"
#include "evenkeel/load/response_parser.h"

namespace evenkeel {

struct RequestResult {
  std::string kind;  ///< of failure; empty: succeeded
  std::string example;
  std::string reason;
  std::string backend;
  bool may_resend = false;
  std::uint64_t content_events = 0;
  std::uint64_t output_tokens = 0;
  std::uint64_t cached_tokens = 0;
  Instant started{};
  Instant first_content_at{};
  Instant last_content_at{};
  Instant end{};

  /// Mean time per token after the first; nothing for a stream of one.
  std::optional<Duration> per_token() const;
  /// The first failure counts.
  void fail(std::string_view what, std::string why);
  void fail(const Error& error, bool response_started);
  void use(const ResponseUsage& usage);
};

/// True if a stream that succeeded was as fast as the options want. Never without targets.
bool meets_targets(const LoadOptions& options, Instant due, const RequestResult& result);

/// A JSON object and a newline. Times in seconds: `due_seconds` from the start of the load, the
/// others from when the request was due.
std::string log_line(const LoadRequest& load_request, Duration due_in, Instant due,
                     const RequestResult& result);

}  // namespace evenkeel
