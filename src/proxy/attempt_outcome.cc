#include "proxy/attempt_outcome.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <optional>
#include <string_view>

#include "evenkeel/base/ascii.h"
#include "evenkeel/http/grpc.h"

namespace evenkeel {
namespace {

constexpr std::uint32_t day_ms = 24 * 60 * 60 * 1000;

/// A number, at most `max`; decimals are rounded up.
std::optional<std::uint32_t> read_number(std::string_view text, std::uint32_t max) {
  std::uint32_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (error == std::errc::invalid_argument) return std::nullopt;
  if (error == std::errc::result_out_of_range) value = max;
  value = std::min(value, max);
  const std::string_view decimals(rest, static_cast<std::size_t>(end - rest));
  if (decimals.empty()) return value;
  if (decimals[0] != '.' || decimals.find_first_not_of("0123456789", 1) != std::string_view::npos) {
    return std::nullopt;
  }
  const bool more = decimals.find_first_not_of(".0") != std::string_view::npos;
  return std::min(value + (more ? 1 : 0), max);
}

/// A date as `Sun, 06 Nov 1994 08:49:37 GMT` (IMF-fixdate, RFC 9110, section 5.6.7). The day of the
/// week is not looked at.
std::optional<std::chrono::sys_seconds> read_date(std::string_view text) {
  constexpr std::string_view months = "JanFebMarAprMayJunJulAugSepOctNovDec";
  if (text.size() != 29 || text.substr(3, 2) != ", " || text[7] != ' ' || text[11] != ' ' ||
      text[16] != ' ' || text[19] != ':' || text[22] != ':' || !text.ends_with(" GMT")) {
    return std::nullopt;
  }
  bool ok = true;
  const auto number = [&](std::size_t at, std::size_t size) {
    int value = 0;
    for (const char digit : text.substr(at, size)) {
      ok = ok && is_digit(digit);
      value = value * 10 + (digit - '0');
    }
    return value;
  };
  const std::size_t month = months.find(text.substr(8, 3));
  const auto day = static_cast<unsigned>(number(5, 2));
  const std::chrono::year_month_day date{std::chrono::year(number(12, 4)),
                                         std::chrono::month(static_cast<unsigned>(month / 3 + 1)),
                                         std::chrono::day(day)};
  const int hours = number(17, 2);
  const int minutes = number(20, 2);
  const int seconds = number(23, 2);
  ok = ok && month % 3 == 0 && date.ok() && hours < 24 && minutes < 60 && seconds <= 60;
  if (!ok) return std::nullopt;
  return std::chrono::sys_days(date) + std::chrono::hours(hours) + std::chrono::minutes(minutes) +
         std::chrono::seconds(seconds);
}

/// How long an overloaded backend wants to be left alone, at most a day: `retry-after-ms`, or
/// `retry-after` in seconds or as a date. 0: it does not say.
Duration retry_after_of(const Fields& fields) {
  for (const Field& field : fields) {
    if (!equals_ignore_case(field.name(), "retry-after-ms")) continue;
    if (const auto ms = read_number(field.value(), day_ms)) return std::chrono::milliseconds(*ms);
  }
  const auto text = fields.value(FieldId::retry_after);
  if (!text) return {};
  if (const auto seconds = read_number(*text, day_ms / 1000)) return std::chrono::seconds(*seconds);
  const auto date = read_date(*text);
  if (!date) return {};
  // In seconds: of nanoseconds, 64 bits hold no date behind the year 2262.
  const auto left =
      *date - std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
  return std::clamp(left, std::chrono::seconds(0), std::chrono::seconds(day_ms / 1000));
}

}  // namespace

AttemptResult classify_head(const Request& request, const Response& response) {
  AttemptResult result;
  if (response.status >= 400) [[unlikely]] {
    result = classify(response.status);
    result.safe_method = is_safe_method(request.method);
  } else if (request.info.outcome.grpc_status) {
    const auto status = response.fields.value("grpc-status");
    if (!status) return result;
    const GrpcStatus parsed = parse_grpc_status(*status).value_or(GrpcStatus::unknown);
    result = classify_grpc(static_cast<std::uint8_t>(parsed));
  }
  if (result.outcome == AttemptOutcome::overloaded) {
    result.retry_after = retry_after_of(response.fields);
  }
  return result;
}

AttemptResult classify_grpc(std::uint8_t status) {
  switch (static_cast<GrpcStatus>(status)) {
    case GrpcStatus::ok: return {};
    case GrpcStatus::resource_exhausted: return classify(429);
    case GrpcStatus::unavailable: return classify(503);
    case GrpcStatus::unknown:  // an exception in a Python server
    case GrpcStatus::internal:
    case GrpcStatus::data_loss: return classify(500);
    case GrpcStatus::cancelled:
    case GrpcStatus::deadline_exceeded: return {.outcome = AttemptOutcome::abandoned};
    default: return {.outcome = AttemptOutcome::client_error};
  }
}

}  // namespace evenkeel
