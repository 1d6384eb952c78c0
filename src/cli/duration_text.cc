#include "cli/duration_text.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <utility>

namespace evenkeel {

std::optional<Duration> parse_duration(std::string_view text) {
  constexpr double max_amount = 1e9;
  constexpr std::array<std::pair<std::string_view, double>, 6> units = {
      {{"us", 1e-6}, {"ms", 1e-3}, {"s", 1}, {"", 1}, {"m", 60}, {"h", 3600}}};
  double amount = 0;
  const char* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, amount, std::chars_format::fixed);
  if (error != std::errc{} || !(amount >= 0) || amount > max_amount) return std::nullopt;
  const std::string_view unit(stopped, static_cast<std::size_t>(end - stopped));
  for (const auto& [name, seconds] : units) {
    if (name != unit) continue;
    return std::chrono::round<Duration>(std::chrono::duration<double>(amount * seconds));
  }
  return std::nullopt;
}

std::string format_duration(double seconds) {
  if (!(seconds >= 0)) return "-";
  const auto whole = static_cast<std::uint64_t>(seconds);
  constexpr std::array<std::pair<char, std::uint64_t>, 4> units = {
      {{'d', 86400}, {'h', 3600}, {'m', 60}, {'s', 1}}};
  for (std::size_t i = 0; i + 1 < units.size(); ++i) {
    if (whole < units[i].second) continue;
    const std::uint64_t rest = whole % units[i].second / units[i + 1].second;
    return fmt::format("{}{} {}{}", whole / units[i].second, units[i].first, rest,
                       units[i + 1].first);
  }
  return fmt::format("{}s", whole);
}

}  // namespace evenkeel
