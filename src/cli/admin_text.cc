#include "cli/admin_text.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <string_view>
#include <utility>

#include "cli/text_table.h"

namespace evenkeel {
namespace {

std::string count_text(const JsonValue& value) {
  return value.number() ? amount_text(*value.number()) : "-";
}

/// Of GPUs: used and whole memory.
std::string memory_text(const JsonValue& polled) {
  const auto used = polled["gpu_memory_used_bytes"].number();
  const auto total = polled["gpu_memory_total_bytes"].number();
  if (!used) return "-";
  constexpr double gib = 1024.0 * 1024 * 1024;
  if (!total) return fmt::format("{:.1f}G", *used / gib);
  return fmt::format("{:.1f}/{:.0f}G", *used / gib, *total / gib);
}

/// Seconds since the epoch of "2026-11-21T17:12:23Z".
std::optional<double> instant_of(const std::string& rfc3339) {
  std::tm parts{};
  const char* const end = strptime(rfc3339.c_str(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  if (end == nullptr || *end != '\0') return std::nullopt;
  return static_cast<double>(timegm(&parts));
}

}  // namespace

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

std::string amount_text(double amount) {
  if (std::isnan(amount)) return "-";
  if (amount < 1000) {
    return amount == std::floor(amount) ? fmt::format("{:.0f}", amount)
                                        : fmt::format("{:.1f}", amount);
  }
  constexpr std::array<std::pair<double, char>, 4> sizes = {
      {{1e3, 'k'}, {1e6, 'M'}, {1e9, 'G'}, {1e12, 'T'}}};
  std::size_t size = 0;
  while (size + 1 < sizes.size() && amount >= 999.5 * sizes[size].first) ++size;
  const double scaled = amount / sizes[size].first;
  return fmt::format("{:.{}f}{}", scaled,
                     scaled < 9.995   ? 2
                     : scaled < 99.95 ? 1
                                      : 0,
                     sizes[size].second);
}

std::string latency_text(const std::optional<double>& seconds) {
  if (!seconds) return "-";
  if (*seconds < 0.0995) return fmt::format("{:.1f}ms", *seconds * 1e3);
  if (*seconds < 0.9995) return fmt::format("{:.0f}ms", *seconds * 1e3);
  return *seconds < 99.5 ? fmt::format("{:.2f}s", *seconds) : format_duration(*seconds);
}

std::string percent_text(const std::optional<double>& ratio) {
  return ratio ? fmt::format("{:.0f}%", *ratio * 100) : "-";
}

Lines status_text(const JsonValue& status, const JsonValue& pools) {
  const JsonValue& config = status["config"];
  Lines lines;
  lines.push_back(fmt::format("evenkeel {}, up {}{}", status["version"].text(),
                              format_duration(status["uptime_seconds"].number().value_or(NAN)),
                              status["draining"].truth() ? ", draining" : ""));
  lines.push_back(fmt::format("{} ({}), loaded {}", config["file"].text(), config["hash"].text(),
                              config["loaded_at"].text()));
  if (!config["last_reload_ok"].truth()) {
    lines.emplace_back("the last reload was refused, and that file is not the one that runs:");
    for (std::string& line : problems_text(config["errors"])) lines.push_back("  " + line);
  }
  lines.push_back(fmt::format("workers {}, connections {}, requests in flight {}",
                              count_text(status["workers"]), count_text(status["connections"]),
                              count_text(status["requests_in_flight"])));
  lines.emplace_back();
  TextTable table({"POOL", "PICKER", ">UP", ">OF", ">IN FLIGHT", ">WAITING", ">FULL"});
  for (const JsonValue& pool : pools.items()) {
    table.add({pool["name"].text(), pool["picker"].text(), count_text(pool["backends"]["up"]),
               count_text(pool["backends"]["total"]), count_text(pool["in_flight"]),
               count_text(pool["waiting"]), percent_text(pool["saturation"].number())});
  }
  for (std::string& line : lines) line = printable(line);
  for (std::string& line : table.lines()) lines.push_back(std::move(line));
  return lines;
}

Lines problems_text(const JsonValue& problems) {
  Lines lines;
  for (const JsonValue& problem : problems.items()) {
    std::string line = problem["file"].text();
    const int at = static_cast<int>(problem["line"].number().value_or(0));
    const int column = static_cast<int>(problem["column"].number().value_or(0));
    if (at > 0) line += fmt::format(":{}:{}", at, column);
    line += ": error: ";
    if (!problem["path"].text().empty()) line += problem["path"].text() + ": ";
    line += problem["message"].text();
    if (!problem["help"].text().empty()) line += "; " + problem["help"].text();
    lines.push_back(printable(line));
  }
  return lines;
}

Lines backends_text(const JsonValue& backends, double now, const std::vector<double>& rates) {
  std::vector<std::string_view> headings = {
      "POOL",  "BACKEND", "STATE", ">FOR",  ">WEIGHT", ">REQ/S", ">IN FLIGHT", ">PICKS", ">ERRORS",
      ">TTFT", ">E2E",    ">RUN",  ">WAIT", ">KV",     ">GPU",   ">VRAM",      "WHY"};
  constexpr std::size_t rate_column = 5;
  if (rates.empty()) headings.erase(headings.begin() + rate_column);
  TextTable table(std::move(headings));
  for (std::size_t i = 0; i < backends.items().size(); ++i) {
    const JsonValue& each = backends.items()[i];
    const JsonValue& polled = each["polled"];
    const auto since = instant_of(each["since"].text());
    std::vector<std::string> row = {
        each["pool"].text(),
        each["id"].text(),
        each["state"].text(),
        since ? format_duration(std::max(0.0, now - *since)) : "-",
        count_text(each["weight"]),
        i < rates.size() ? amount_text(rates[i]) : "-",
        count_text(each["in_flight"]),
        count_text(each["picks_total"]),
        count_text(each["errors_total"]),
        latency_text(each["latency"]["ttft_seconds"].number()),
        latency_text(each["latency"]["e2e_seconds"].number()),
        count_text(polled["running"]),
        count_text(polled["waiting"]),
        percent_text(polled["kv_cache_ratio"].number()),
        percent_text(polled["gpu_utilization_ratio"].number()),
        memory_text(polled),
        each["reason"].text(),
    };
    if (rates.empty()) row.erase(row.begin() + rate_column);
    table.add(std::move(row));
  }
  return table.lines();
}

}  // namespace evenkeel
