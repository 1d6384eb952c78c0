// The names of the access log's fields, and the keys that they are in lines of JSON.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

#include "evenkeel/stats/access_log_format.h"

namespace evenkeel::access_log_names {

/// The names, in the order of AccessLogField.
inline constexpr std::array<std::string_view, access_log_field_count> names{
    "time",          "request_id",    "trace_id",      "client",
    "peer",          "listener",      "protocol",      "method",
    "host",          "path",          "route",         "pool",
    "backend",       "priority",      "tenant",        "status",
    "grpc_status",   "reason",        "attempts",      "bytes_in",
    "bytes_out",     "duration_ms",   "head_ms",       "wait_ms",
    "connect_ms",    "retry_ms",      "overhead_ms",   "backend_ms",
    "ttfb_ms",       "model",         "task",          "stream",
    "max_tokens",    "prompt_bytes",  "prompt_tokens", "completion_tokens",
    "cached_tokens", "finish_reason", "body_ms",       "ttft_ms",
    "tpot_ms",       "max_gap_ms",    "cache",         "aborted",
    "key",           "request",       "time_local",    "user_agent",
    "referer"};
static_assert(names[static_cast<std::size_t>(AccessLogField::referer)] == "referer");

/// `,"name":`, made when this is compiled.
template <AccessLogField field>
inline constexpr auto json_key = [] {
  constexpr std::string_view name = names[static_cast<std::size_t>(field)];
  std::array<char, name.size() + 4> key{};
  std::size_t size = 0;
  key[size++] = ',';
  key[size++] = '"';
  for (const char c : name) key[size++] = c;
  key[size++] = '"';
  key[size++] = ':';
  return key;
}();

}  // namespace evenkeel::access_log_names
