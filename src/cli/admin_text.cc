#include "cli/admin_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <string_view>
#include <tuple>
#include <utility>

#include "cli/duration_text.h"
#include "evenkeel/base/rfc3339.h"
#include "evenkeel/base/text_table.h"

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

// ---- rows of backends

std::string ratio_text(const JsonValue& value) { return percent_text(value.number()); }

std::string time_text(const JsonValue& seconds) {
  return seconds.number() ? format_duration(*seconds.number()) : "-";
}

std::string failure_rate(const JsonValue& rate) {
  return rate.number() ? amount_text(std::round(*rate.number() * 10) / 10) : "-";
}

constexpr auto right = TableColumn::Align::right;
constexpr auto left = TableColumn::Align::left;

// What `backends_text` adds to the document of a backend.
constexpr std::string_view rate_path = "requests_per_second";
constexpr std::string_view time_path = "seconds_in_state";

/// The columns from left to right. Id, state and reason are in every table; the others go when it
/// is narrow. A forecast is only shown where a pool has a scheduler.
constexpr std::array<DocumentColumn, 22> backend_columns = {{
    {{"POOL", left, 2}, "pool", plain_text},
    {{"BACKEND", left}, "id", plain_text},
    {{"STATE", left}, "state", plain_text},
    {{"FOR", right, 4}, time_path, time_text},
    {{"WEIGHT", right, 12}, "weight", count_text},
    {{"REQ/S", right, 3}, rate_path, count_text},
    {{"IN FLIGHT", right, 1}, "in_flight", count_text},
    {{"PICKS", right, 15}, "picks_total", count_text},
    {{"ERRORS", right, 6}, "errors_total", count_text},
    {{"FAIL/S", right, 16}, "latency.failures_per_second", failure_rate},
    {{"TTFT", right, 5}, "latency.ttft_seconds", seconds_text},
    {{"TTFT P99", right, 7}, "latency.ttft_p99_seconds", seconds_text},
    {{"TPOT", right, 6}, "latency.tpot_seconds", seconds_text},
    {{"E2E", right, 8}, "latency.e2e_seconds", seconds_text},
    {{"RUN", right, 10}, "polled.running", count_text},
    {{"WAIT", right, 9}, "polled.waiting", count_text},
    {{"KV", right, 11}, "polled.kv_cache_ratio", ratio_text},
    {{"GPU", right, 13}, "polled.gpu_utilization_ratio", ratio_text},
    {{"VRAM", right, 14}, "polled", memory_text},
    {{"BEGINS IN", right, 17}, "forecast.wait_seconds", seconds_text},
    {{"CONFIDENCE", left, 18}, "forecast.confidence", word_text},
    {{"WHY", left}, "reason", plain_text},
}};

/// An order of backends: by the numbers at a path, of which the largest comes first; unknown ones
/// come last. Empty: by none.
struct OrderRow {
  std::string_view name;
  std::string_view path;
};
/// The orders in the order of BackendOrder.
constexpr std::array<OrderRow, 11> orders = {{
    {"daemon", ""},
    {"state", "in_flight"},
    {"in-flight", "in_flight"},
    {"rate", rate_path},
    {"errors", "errors_total"},
    {"ttft", "latency.ttft_seconds"},
    {"tpot", "latency.tpot_seconds"},
    {"e2e", "latency.e2e_seconds"},
    {"kv", "polled.kv_cache_ratio"},
    {"gpu", "polled.gpu_utilization_ratio"},
    {"backend", ""},
}};

/// The less a backend serves against its operators' will, the smaller.
std::size_t state_rank(const JsonValue& row) {
  constexpr std::array<std::string_view, 7> states = {"down",     "ejected", "starting", "sleeping",
                                                      "draining", "up",      "standby"};
  return static_cast<std::size_t>(std::ranges::find(states, row["state"].text()) - states.begin());
}

void sort_rows(std::vector<JsonValue>& rows, BackendOrder order) {
  if (order == BackendOrder::daemon) return;
  std::ranges::sort(rows, [&](const JsonValue& a, const JsonValue& b) {
    const bool by_state = order == BackendOrder::state;
    if (by_state && state_rank(a) != state_rank(b)) return state_rank(a) < state_rank(b);
    const std::string_view path = orders[static_cast<std::size_t>(order)].path;
    const double value_of_a = value_at(a, path).number().value_or(-1);
    const double value_of_b = value_at(b, path).number().value_or(-1);
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

std::string seconds_text(const JsonValue& value) { return latency_text(value.number()); }

std::string word_text(const JsonValue& value) {
  return value.text().empty() ? "-" : printable(value.text());
}

std::string plain_text(const JsonValue& value) { return value.text(); }

std::string latency_text(const std::optional<double>& seconds) {
  if (!seconds) return "-";
  if (*seconds < 0.0995) return fmt::format("{:.1f}ms", *seconds * 1e3);
  if (*seconds < 0.9995) return fmt::format("{:.0f}ms", *seconds * 1e3);
  return *seconds < 99.5 ? fmt::format("{:.2f}s", *seconds) : format_duration(*seconds);
}

std::string percent_text(const std::optional<double>& ratio) {
  return ratio ? fmt::format("{:.0f}%", *ratio * 100) : "-";
}

std::string limits_text(const JsonValue& limits) {
  const auto used = [](const JsonValue& limit) { return limit["used_ratio"].number().value_or(0); };
  const auto tightest = std::ranges::max_element(limits.items(), {}, used);
  if (tightest == limits.items().end()) return "-";
  return percent_text(used(*tightest)) + " of " + (*tightest)["limit"].text();
}

const JsonValue& value_at(const JsonValue& document, std::string_view path) {
  const JsonValue* value = &document;
  while (!path.empty()) {
    const std::string_view name = path.substr(0, path.find('.'));
    path.remove_prefix(std::min(path.size(), name.size() + 1));
    value = &(*value)[name];
  }
  return *value;
}

Lines documents_text(std::span<const DocumentColumn> columns,
                     const std::vector<JsonValue>& documents, std::optional<std::size_t> width) {
  std::vector<TableColumn> headings;
  for (const DocumentColumn& column : columns) headings.push_back(column.table);
  TextTable table(std::move(headings));
  for (const JsonValue& document : documents) {
    std::vector<std::string> row;
    for (const DocumentColumn& column : columns)
      row.push_back(column.text(value_at(document, column.path)));
    table.add(std::move(row));
  }
  return table.lines(width);
}

namespace {

/// A row for each pool, and for each of its versions that a split names.
TextTable pools_table(const JsonValue& pools) {
  std::vector<TableColumn> columns{{"POOL"},          {"PICKER", left, 2},  {"UP", right},
                                   {"OF", right},     {"IN FLIGHT", right}, {"WAITING", right},
                                   {"FULL", right, 1}};
  const bool any_unavailable = std::ranges::any_of(
      pools.items(), [](const JsonValue& pool) { return !pool["unavailable"].text().empty(); });
  const bool any_budget = std::ranges::any_of(
      pools.items(), [](const JsonValue& pool) { return !pool["budget"].items().empty(); });
  if (any_budget) columns.push_back({"BUDGET USED", left});
  if (any_unavailable) columns.push_back({"WHY", left});
  TextTable table(columns);
  const auto add = [&](std::vector<std::string> cells) {
    cells.resize(columns.size());
    table.add(std::move(cells));
  };
  for (const JsonValue& pool : pools.items()) {
    std::vector<std::string> cells = {pool["name"].text(),
                                      pool["picker"].text(),
                                      count_text(pool["backends"]["up"]),
                                      count_text(pool["backends"]["total"]),
                                      count_text(pool["in_flight"]),
                                      count_text(pool["waiting"]),
                                      percent_text(pool["saturation"].number())};
    if (any_budget) cells.push_back(limits_text(pool["budget"]));
    cells.push_back(pool["unavailable"].text());
    add(std::move(cells));
    for (const JsonValue& subset : pool["subsets"].items()) {
      add({"  " + std::string(subset["name"].text()), "", count_text(subset["backends"]["up"]),
           count_text(subset["backends"]["total"]), count_text(subset["in_flight"])});
    }
  }
  return table;
}

}  // namespace

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
  for (std::string& line : lines) line = printable(line);
  for (std::string& line : pools_table(pools).lines(width)) lines.push_back(std::move(line));
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
  return orders[static_cast<std::size_t>(order)].name;
}

std::optional<BackendOrder> backend_order(std::string_view name) {
  const auto found = std::ranges::find(orders, name, &OrderRow::name);
  if (found == orders.end()) return std::nullopt;
  return static_cast<BackendOrder>(found - orders.begin());
}

BackendOrder next_order(BackendOrder order) {
  return static_cast<BackendOrder>((static_cast<std::size_t>(order) + 1) % orders.size());
}

std::vector<std::string> backend_order_names() {
  std::vector<std::string> names;
  for (const OrderRow& order : orders) names.emplace_back(order.name);
  return names;
}

Lines backends_text(const JsonValue& backends, const BackendsView& view) {
  std::vector<JsonValue> rows = backends.items();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (i < view.rates.size()) rows[i].add(rate_path, view.rates[i]);
    const auto since = parse_rfc3339(rows[i]["since"].text());
    if (since) rows[i].add(time_path, std::max(0.0, view.now - seconds_of(*since)));
  }
  sort_rows(rows, view.order);

  const bool scheduled = std::ranges::any_of(rows, [](const JsonValue& row) {
    return row["forecast"]["wait_seconds"].number().has_value();
  });
  std::vector<DocumentColumn> columns(backend_columns.begin(), backend_columns.end());
  std::erase_if(columns, [&](const DocumentColumn& column) {
    return (column.path == rate_path && view.rates.empty()) ||
           (column.path.starts_with("forecast.") && !scheduled);
  });
  return documents_text(columns, rows, view.width);
}

}  // namespace evenkeel
