#include "evenkeel/base/rfc3339.h"

#include <array>
#include <ctime>

#include "evenkeel/base/ascii.h"
#include "evenkeel/base/decimal.h"

namespace evenkeel {

char* put_rfc3339(char* at, std::chrono::sys_seconds time) {
  const auto day = std::chrono::floor<std::chrono::days>(time);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss clock(time - day);
  const auto put_next = [&at](char mark, unsigned value) {
    *at = mark;
    at = put_pair(at + 1, value);
  };
  const auto year = static_cast<unsigned>(static_cast<int>(date.year()));
  at = put_pair(put_pair(at, year / 100 % 100), year % 100);
  put_next('-', static_cast<unsigned>(date.month()));
  put_next('-', static_cast<unsigned>(date.day()));
  put_next('T', static_cast<unsigned>(clock.hours().count()));
  put_next(':', static_cast<unsigned>(clock.minutes().count()));
  put_next(':', static_cast<unsigned>(clock.seconds().count()));
  return at;
}

std::string rfc3339(std::chrono::sys_seconds time) {
  std::array<char, 20> text;
  *put_rfc3339(text.data(), time) = 'Z';
  return {text.data(), text.size()};
}

std::optional<Duration> parse_rfc3339(std::string_view text) {
  const std::string whole(text);
  std::tm parts{};
  const char* at = strptime(whole.c_str(), "%Y-%m-%d", &parts);
  if (at == nullptr || (*at != 'T' && *at != 't' && *at != ' ')) return std::nullopt;
  at = strptime(at + 1, "%H:%M:%S", &parts);
  if (at == nullptr) return std::nullopt;
  Duration fraction{};
  if (*at == '.' || *at == ',') {
    ++at;
    for (Duration::rep unit = 100'000'000; is_digit(*at); ++at, unit /= 10)
      fraction += Duration((*at - '0') * unit);
  }
  if (*at == 'Z' || *at == 'z') {
    ++at;
  } else if (*at != '\0') {
    at = strptime(at, "%z", &parts);
  }
  const bool is_whole = at != nullptr && *at == '\0';
  const std::chrono::year_month_day day(std::chrono::year(parts.tm_year + 1900),
                                        std::chrono::month(static_cast<unsigned>(parts.tm_mon) + 1),
                                        std::chrono::day(static_cast<unsigned>(parts.tm_mday)));
  const int year = static_cast<int>(day.year());
  if (!is_whole || !day.ok() || year < 1970 || year > 2200) return std::nullopt;
  return std::chrono::sys_days(day).time_since_epoch() + std::chrono::hours(parts.tm_hour) +
         std::chrono::minutes(parts.tm_min) + std::chrono::seconds(parts.tm_sec) + fraction -
         std::chrono::seconds(parts.tm_gmtoff);
}

}  // namespace evenkeel
