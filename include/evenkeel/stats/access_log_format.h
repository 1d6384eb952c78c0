// What a line of the access log shows, and how: the formats and fields that the file names.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace evenkeel {

/// One value of a request, by the name that it has in the file and in lines of JSON.
/// docs/observability.md describes them.
enum class AccessLogField : std::uint8_t {
  time,
  request_id,
  trace_id,
  client,
  peer,
  listener,
  protocol,
  method,
  host,
  path,
  route,
  pool,
  backend,
  priority,
  tenant,
  status,
  grpc_status,
  reason,
  attempts,
  bytes_in,
  bytes_out,
  duration_ms,
  head_ms,
  wait_ms,
  connect_ms,
  retry_ms,
  overhead_ms,
  backend_ms,
  ttfb_ms,
  model,
  task,
  stream,
  max_tokens,
  prompt_bytes,
  prompt_tokens,
  completion_tokens,
  cached_tokens,
  finish_reason,
  body_ms,
  ttft_ms,
  tpot_ms,
  max_gap_ms,
  cache,
  aborted,
  // Fields that are only written where they are asked for.
  key,
  request,
  time_local,
  user_agent,
  referer,
};
inline constexpr std::size_t access_log_field_count = 49;

std::string_view to_string(AccessLogField field);
std::optional<AccessLogField> access_log_field(std::string_view name);
/// The names of all fields, in the order of their values.
const std::vector<std::string>& access_log_field_names();

/// The socket that `path: syslog` or `path: syslog:SOCKET` names; nothing if it is another path.
std::optional<std::string> syslog_path(std::string_view path);

/// The template that `combined` stands for: the format of Apache and nginx.
inline constexpr std::string_view combined_template =
    "$client - $tenant [$time_local] \"$request\" $status $bytes_out \"$referer\" "
    "\"$user_agent\"";

/// The most bytes of a template.
inline constexpr std::size_t max_template_bytes = 1024;

/// A part of a template: a text, and the name behind it. The last one may have no name.
struct TemplatePart {
  std::string_view text;
  std::string_view name;
};

/// Splits a template such as `$client "$request" ${status}`. A name is of letters, digits and '_'.
/// Nothing where a '$' has no name. The views are of `text`.
std::optional<std::vector<TemplatePart>> parse_template(std::string_view text);

/// How lines are written. The default is JSON with its usual fields.
struct AccessLogLayout {
  enum class Style : std::uint8_t { json, logfmt, text };
  /// A text with the field behind it. The last one may have no field.
  struct Part {
    std::string text;
    std::optional<AccessLogField> field;
    char delimiter = '\0';  ///< the byte behind the field, by which it ends; 0: none
  };

  Style style = Style::json;
  std::vector<Part> parts;  ///< empty: the usual fields
  bool shows_client_fields =
      false;  ///< true if `user_agent`, `referer` or `key` is among the fields
};

/// `format`: json, logfmt, combined, or a template; `fields`: of json and logfmt; none: the usual
/// ones. REQUIRES: their names are those of fields.
AccessLogLayout access_log_layout(std::string_view format, const std::vector<std::string>& fields);

}  // namespace evenkeel
