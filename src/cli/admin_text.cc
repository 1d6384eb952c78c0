#include "cli/admin_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <functional>
#include <string_view>
#include <tuple>
#include <utility>

#include "cli/duration_text.h"
#include "cli/text_table.h"

namespace evenkeel {
namespace {

/// Used and total memory of GPUs.
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

// ---- rows of backends

struct BackendRow {
  std::reference_wrapper<const JsonValue> document;
  std::optional<double> rate;
  double now;

  const JsonValue& operator[](std::string_view name) const { return document.get()[name]; }
};

std::string time_in_state(const BackendRow& row) {
  const auto since = instant_of(row["since"].text());
  return since ? format_duration(std::max(0.0, row.now - *since)) : "-";
}

std::string failure_rate(const BackendRow& row) {
  const auto rate = row["latency"]["failures_per_second"].number();
  return rate ? amount_text(std::round(*rate * 10) / 10) : "-";
}

struct BackendColumn {
  TableColumn table;
  std::string (*cell)(const BackendRow& row);
  bool of_scheduler = false;  // only shown where a pool has one
};

std::string rung_text(const BackendRow& row) {
  const std::string rung{row["forecast"]["rung"].text()};
  return rung.empty() ? "-" : rung;
}

constexpr auto right = TableColumn::Align::right;
constexpr auto left = TableColumn::Align::left;

/// The columns from left to right. Id, state and reason are in every table; the others go when it
/// is narrow.
constexpr std::array<BackendColumn, 22> backend_columns = {{
    {{"POOL", left, 2}, [](const BackendRow& row) { return row["pool"].text(); }},
    {{"BACKEND", left}, [](const BackendRow& row) { return row["id"].text(); }},
    {{"STATE", left}, [](const BackendRow& row) { return row["state"].text(); }},
    {{"FOR", right, 4}, time_in_state},
    {{"WEIGHT", right, 12}, [](const BackendRow& row) { return count_text(row["weight"]); }},
    {{"REQ/S", right, 3},
     [](const BackendRow& row) { return row.rate ? amount_text(*row.rate) : "-"; }},
    {{"IN FLIGHT", right, 1}, [](const BackendRow& row) { return count_text(row["in_flight"]); }},
    {{"PICKS", right, 15}, [](const BackendRow& row) { return count_text(row["picks_total"]); }},
    {{"ERRORS", right, 6}, [](const BackendRow& row) { return count_text(row["errors_total"]); }},
    {{"FAIL/S", right, 16}, failure_rate},
    {{"TTFT", right, 5},
     [](const BackendRow& row) { return latency_text(row["latency"]["ttft_seconds"].number()); }},
    {{"TTFT P99", right, 7},
     [](const BackendRow& row) {
       return latency_text(row["latency"]["ttft_p99_seconds"].number());
     }},
    {{"TPOT", right, 6},
     [](const BackendRow& row) { return latency_text(row["latency"]["tpot_seconds"].number()); }},
    {{"E2E", right, 8},
     [](const BackendRow& row) { return latency_text(row["latency"]["e2e_seconds"].number()); }},
    {{"RUN", right, 10},
     [](const BackendRow& row) { return count_text(row["polled"]["running"]); }},
    {{"WAIT", right, 9},
     [](const BackendRow& row) { return count_text(row["polled"]["waiting"]); }},
    {{"KV", right, 11},
     [](const BackendRow& row) { return percent_text(row["polled"]["kv_cache_ratio"].number()); }},
    {{"GPU", right, 13},
     [](const BackendRow& row) {
       return percent_text(row["polled"]["gpu_utilization_ratio"].number());
     }},
    {{"VRAM", right, 14}, [](const BackendRow& row) { return memory_text(row["polled"]); }},
    {{"BEGINS IN", right, 17},
     [](const BackendRow& row) { return latency_text(row["forecast"]["wait_seconds"].number()); },
     true},
    {{"RUNG", left, 18}, rung_text, true},
    {{"WHY", left}, [](const BackendRow& row) { return row["reason"].text(); }},
}};

constexpr std::array<std::string_view, 11> order_names = {"daemon", "state", "in-flight", "rate",
                                                          "errors", "ttft",  "tpot",      "e2e",
                                                          "kv",     "gpu",   "backend"};

/// The less a backend serves against its operators' will, the smaller.
std::size_t state_rank(const BackendRow& row) {
  constexpr std::array<std::string_view, 7> states = {"down",     "ejected", "starting", "sleeping",
                                                      "draining", "up",      "standby"};
  return static_cast<std::size_t>(std::ranges::find(states, row["state"].text()) - states.begin());
}

/// What an order compares, as numbers of which the largest comes first; unknown ones come last.
double sort_value(const BackendRow& row, BackendOrder order) {
  constexpr double unknown = -1;
  switch (order) {
    case BackendOrder::daemon:
    case BackendOrder::backend: return 0;
    case BackendOrder::state:
    case BackendOrder::in_flight: return row["in_flight"].number().value_or(unknown);
    case BackendOrder::rate: return row.rate.value_or(unknown);
    case BackendOrder::errors: return row["errors_total"].number().value_or(unknown);
    case BackendOrder::ttft: return row["latency"]["ttft_seconds"].number().value_or(unknown);
    case BackendOrder::tpot: return row["latency"]["tpot_seconds"].number().value_or(unknown);
    case BackendOrder::e2e: return row["latency"]["e2e_seconds"].number().value_or(unknown);
    case BackendOrder::kv: return row["polled"]["kv_cache_ratio"].number().value_or(unknown);
    case BackendOrder::gpu:
      return row["polled"]["gpu_utilization_ratio"].number().value_or(unknown);
  }
  return unknown;
}

void sort_rows(std::vector<BackendRow>& rows, BackendOrder order) {
  if (order == BackendOrder::daemon) return;
  std::ranges::sort(rows, [&](const BackendRow& a, const BackendRow& b) {
    const bool by_state = order == BackendOrder::state;
    if (by_state && state_rank(a) != state_rank(b)) return state_rank(a) < state_rank(b);
    const double value_of_a = sort_value(a, order);
    const double value_of_b = sort_value(b, order);
    if (value_of_a != value_of_b) return value_of_a > value_of_b;
    return std::tie(a["id"].text(), a["pool"].text()) < std::tie(b["id"].text(), b["pool"].text());
  });
}

}  // namespace

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

std::string count_text(const JsonValue& value) {
  return value.number() ? amount_text(*value.number()) : "-";
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

Lines status_text(const JsonValue& status, const JsonValue& pools,
                  std::optional<std::size_t> width) {
  const JsonValue& config = status["config"];
  Lines lines;
  lines.push_back(fmt::format("evenkeel {}, up {}{}", status["version"].text(),
                              format_duration(status["uptime_seconds"].number().value_or(NAN)),
                              status["draining"].truth() ? ", draining" : ""));
  lines.push_back(fmt::format("{} ({}), loaded {}", config["file"].text(), config["hash"].text(),
                              config["loaded_at"].text()));
  if (!config["last_reload_ok"].truth()) {
    lines.emplace_back("the last reload was rejected, the configuration above stays active:");
    for (std::string& line : problems_text(config["errors"])) lines.push_back("  " + line);
  }
  const auto add_problem = [&](const char* what, const std::string& problem) {
    if (!problem.empty()) lines.push_back(what + problem);
  };
  add_problem("the last upgrade failed: ", status["upgrade_problem"].text());
  add_problem("the state is not saved: ", status["state_file_problem"].text());
  const auto quota = status["cpu_quota"].number();
  if (quota) {
    lines.push_back(fmt::format("CPU quota {:.3g}, busy polling {}", *quota,
                                status["busy_polling"].truth() ? "on" : "off"));
  }
  lines.push_back(fmt::format("workers {}, connections {}, requests in flight {}",
                              count_text(status["workers"]), count_text(status["connections"]),
                              count_text(status["requests_in_flight"])));
  lines.emplace_back();
  std::vector<TableColumn> columns{{"POOL"},          {"PICKER", left, 2},  {"UP", right},
                                   {"OF", right},     {"IN FLIGHT", right}, {"WAITING", right},
                                   {"FULL", right, 1}};
  const bool any_unavailable = std::ranges::any_of(
      pools.items(), [](const JsonValue& pool) { return !pool["unavailable"].text().empty(); });
  if (any_unavailable) columns.push_back({"WHY", left});
  TextTable table(columns);
  const auto add = [&](std::vector<std::string> cells) {
    cells.resize(columns.size());
    table.add(std::move(cells));
  };
  for (const JsonValue& pool : pools.items()) {
    add({pool["name"].text(), pool["picker"].text(), count_text(pool["backends"]["up"]),
         count_text(pool["backends"]["total"]), count_text(pool["in_flight"]),
         count_text(pool["waiting"]), percent_text(pool["saturation"].number()),
         pool["unavailable"].text()});
    for (const JsonValue& subset : pool["subsets"].items()) {
      add({"  " + std::string(subset["name"].text()), "", count_text(subset["backends"]["up"]),
           count_text(subset["backends"]["total"]), count_text(subset["in_flight"])});
    }
  }
  for (std::string& line : lines) line = printable(line);
  for (std::string& line : table.lines(width)) lines.push_back(std::move(line));
  return lines;
}

Lines problems_text(const JsonValue& problems) {
  Lines lines;
  for (const JsonValue& problem : problems.items()) {
    std::string line = problem["file"].text();
    const int at = static_cast<int>(problem["line"].number().value_or(0));
    const int column = static_cast<int>(problem["column"].number().value_or(0));
    if (at > 0) line += fmt::format(":{}:{}", at, column);
    line += problem["severity"].text() == "warning" ? ": warning: " : ": error: ";
    if (!problem["path"].text().empty()) line += problem["path"].text() + ": ";
    line += problem["message"].text();
    if (!problem["help"].text().empty()) line += "; " + problem["help"].text();
    lines.push_back(printable(line));
  }
  return lines;
}

std::string error_text(const JsonValue& document, int status) {
  const std::string& error = document["error"].text();
  const std::string_view remedy = status == 409   ? " (--pool NAME)"
                                  : status == 401 ? " (--token-file FILE)"
                                                  : "";
  return fmt::format("{}{}", error.empty() ? fmt::format("status {}", status) : error, remedy);
}

std::string_view to_string(BackendOrder order) {
  return order_names[static_cast<std::size_t>(order)];
}

std::optional<BackendOrder> backend_order(std::string_view name) {
  const auto found = std::ranges::find(order_names, name);
  if (found == order_names.end()) return std::nullopt;
  return static_cast<BackendOrder>(found - order_names.begin());
}

BackendOrder next_order(BackendOrder order) {
  return static_cast<BackendOrder>((static_cast<std::size_t>(order) + 1) % order_names.size());
}

std::vector<std::string> backend_order_names() { return {order_names.begin(), order_names.end()}; }

Lines backends_text(const JsonValue& backends, const BackendsView& view) {
  std::vector<BackendRow> rows;
  for (std::size_t i = 0; i < backends.items().size(); ++i) {
    const auto rate = i < view.rates.size() ? std::optional(view.rates[i]) : std::nullopt;
    rows.push_back({backends.items()[i], rate, view.now});
  }
  sort_rows(rows, view.order);

  const bool scheduled = std::ranges::any_of(rows, [](const BackendRow& row) {
    return row["forecast"]["wait_seconds"].number().has_value();
  });
  std::vector<const BackendColumn*> shown;
  std::vector<TableColumn> columns;
  for (const BackendColumn& column : backend_columns) {
    if (column.table.heading == "REQ/S" && view.rates.empty()) continue;
    if (column.of_scheduler && !scheduled) continue;
    shown.push_back(&column);
    columns.push_back(column.table);
  }
  TextTable table(std::move(columns));
  for (const BackendRow& row : rows) {
    std::vector<std::string> cells;
    for (const BackendColumn* column : shown) cells.push_back(column->cell(row));
    table.add(std::move(cells));
  }
  return table.lines(view.width);
}

}  // namespace evenkeel
