// Formats one request as one line, usually of JSON. docs/observability.md describes the fields.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "evenkeel/base/attempt_list.h"
#include "evenkeel/base/clock.h"
#include "evenkeel/stats/access_log_format.h"

namespace evenkeel {

/// How an attempt ended: by its own fault, by the fault that ended the request, or answered.
/// `last`: of the request; `reason`: why it failed, empty if it did not.
std::string_view outcome_of(const AttemptRecord& attempt, bool last, std::string_view reason);

/// The line's part on a request to a model whose body was read. docs/observability.md describes
/// the fields.
struct AccessLogInference {
  std::string_view model;  ///< as the client named it
  std::string_view task;
  bool stream = false;
  std::optional<std::uint32_t> max_tokens;
  std::uint64_t prompt_bytes = 0;
  // The tokens of the response, as the engine counted.
  std::optional<std::uint64_t> prompt_tokens;
  std::optional<std::uint64_t> completion_tokens;
  std::optional<std::uint64_t> cached_tokens;
  std::string_view finish_reason;
  Duration awaited_body{};              ///< before a backend had the request
  std::optional<Duration> first_token;  ///< from the request's first byte
  std::optional<Duration> per_output_token;
  std::optional<Duration> max_gap;
};

/// The values of one line. Views may hold any bytes; an empty one is written as null.
struct AccessLogEntry {
  std::chrono::system_clock::time_point time;  ///< of the request's first byte; see WallClock
  std::string_view request_id;
  std::string_view trace_id;  ///< left out of the line if empty
  std::string_view client;
  std::string_view peer;  ///< left out of the line if empty
  std::string_view listener;
  std::string_view protocol;
  std::string_view method;
  std::string_view host;
  std::string_view path;
  std::string_view route;
  std::string_view pool;
  std::string_view backend;
  std::string_view priority;                ///< left out of the line if empty
  std::string_view tenant;                  ///< left out of the line if empty
  int status = 0;                           ///< 0 or less: null
  std::optional<std::uint8_t> grpc_status;  ///< left out of the line if empty
  std::string_view reason;                  ///< the fault that ended it, as `to_string` has it
  std::span<const AttemptRecord> attempts;  ///< at most AttemptList::capacity
  std::uint64_t bytes_in = 0;
  std::uint64_t bytes_out = 0;
  /// The whole request: the sum of the next six, and of the wait for a body that was read first.
  Duration duration{};
  Duration head{};      ///< reading the request's head
  Duration waited{};    ///< in the pool's queue
  Duration connect{};   ///< getting links to backends, over all attempts
  Duration retry{};     ///< on attempts that failed after they were sent, before the last one
  Duration overhead{};  ///< in evenkeel itself
  std::optional<Duration> backend_time;  ///< from the head sent to the last byte of the response
  std::optional<Duration> first_byte;    ///< from the first byte to the response's beginning
  const AccessLogInference* inference = nullptr;  ///< left out of the line if null
  std::string_view cache;  ///< where the answer is from; left out of the line if empty
  bool aborted = false;
  std::string_view user_agent;  ///< this and the next two only where the layout shows client fields
  std::string_view referer;
  std::string_view key;  ///< the id of the API key; left out of the line if empty
};

/// Converts monotonic instants to wall-clock time. Compares the two clocks once a second.
/// Thread: one.
class WallClock {
 public:
  using System = std::chrono::system_clock;
  using Now = System::time_point (*)();
  using Monotonic = Instant (*)();
  explicit WallClock(Now now = &System::now, Monotonic monotonic = &Clock::now)
      : now_(now), monotonic_(monotonic) {}

  System::time_point at(Instant instant) {
    if (instant >= next_sync_) [[unlikely]]
      sync();
    return System::time_point(
        std::chrono::duration_cast<System::duration>(instant.time_since_epoch() + offset_));
  }

 private:
  void sync();

  Now now_;
  Monotonic monotonic_;
  Duration offset_{};  // of the monotonic clock
  Instant next_sync_ = Instant::min();
};

/// Large enough for the line of any request. Leave it uninitialised.
using AccessLogBuffer = std::array<char, 16384>;

/// The second of a line's time as text.
struct AccessLogDates {
  std::array<char, 20> utc{};    ///< "2026-01-31T23:59:59."
  std::array<char, 26> local{};  ///< "31/Jan/2026:23:59:59 +0000"
};

/// Writes lines. Long values are cut and end in "..."; whatever bytes a line is given, it is one
/// line, and valid JSON if it is to be JSON. Thread: one.
class AccessLogFormatter {
 public:
  /// Writes lines as `layout` says from now on.
  void set_layout(AccessLogLayout layout) { layout_ = std::move(layout); }
  /// True if lines show what AccessLogLayout calls so.
  bool shows_client_fields() const { return layout_.shows_client_fields; }
  /// The line, newline and all, inside `buffer`.
  std::string_view format(const AccessLogEntry& entry, AccessLogBuffer& buffer);

 private:
  AccessLogLayout layout_;
  std::int64_t second_ = -1;  // that dates_ show
  AccessLogDates dates_;
};

}  // namespace evenkeel
