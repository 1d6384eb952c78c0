// What one request is billed by, as a line: a CloudEvent in JSON. docs/observability.md describes
// it.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>

#include "evenkeel/base/clock.h"
#include "evenkeel/stats/amount.h"

namespace evenkeel {

/// The values of one record. Views may hold any bytes; empty ones are left out of the line.
struct UsageRecord {
  std::chrono::system_clock::time_point time;  ///< when the request ended
  std::string_view id;                         ///< of the record: no other has it
  std::string_view source;
  std::string_view request_id;  ///< clients may choose it, and repeat it
  std::string_view tenant;
  std::string_view key;           ///< the id of the API key
  std::string_view model;         ///< as the client named it
  std::string_view served_model;  ///< as the backend got it
  std::string_view pool;
  std::string_view route;
  std::string_view backend;
  int status = 0;
  std::uint64_t input_tokens = 0;
  std::uint64_t output_tokens = 0;
  std::optional<std::uint64_t> cached_tokens;  ///< of the input
  bool estimated = false;                      ///< tokens that the engine has not counted
  bool aborted = false;                        ///< the response broke off, or the client left
  std::uint64_t retries = 0;
  std::string_view cache;  ///< where the answer is from, if not from a backend
  std::optional<Amount> cost;
  Duration duration{};
};

/// Large enough for any record. Leave it uninitialised.
using UsageBuffer = std::array<char, 4096>;

/// The line, newline and all, inside `buffer`.
std::string_view format_usage(const UsageRecord& record, UsageBuffer& buffer);

/// Reads records back, also those that another program has written anew.
class UsageReader {
 public:
  enum class Line {
    whole,    ///< a record
    glued,    ///< a record behind the beginning of another, which was torn
    useless,  ///< no record
  };

  /// Reads a line, without its end. What follows is of the last record; its views live as long as
  /// the line, and until the next one is read.
  Line read(std::string_view line);
  const UsageRecord& record() const { return record_; }
  /// The bytes of the record in the line.
  std::string_view text() const { return text_; }

 private:
  bool read_record(std::string_view json);
  std::string_view text_of(std::string_view json, bool escaped);

  UsageRecord record_;
  std::string_view text_;
  std::deque<std::string> unescaped_;
};

}  // namespace evenkeel
