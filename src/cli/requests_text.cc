#include "cli/requests_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "cli/text_table.h"

namespace evenkeel {
namespace {

struct RequestColumn {
  TableColumn table;
  std::string (*cell)(const JsonValue& request);
};

/// The tokens of the prompt as the engine counted; an estimate has a tilde.
std::string prompt_text(const JsonValue& request) {
  const auto estimate = request["estimated_prompt_tokens"].number().value_or(0);
  if (request["prompt_tokens"].number() || estimate <= 0) {
    return count_text(request["prompt_tokens"]);
  }
  return "~" + amount_text(estimate);
}

std::string outcome_text(const JsonValue& request) {
  const std::string& reason = request["reason"].text();
  return reason.empty() ? request["finish_reason"].text() : reason;
}

std::string backend_text(const JsonValue& request) {
  const auto& attempts = request["attempts"].items();
  if (attempts.empty()) return "-";
  std::string text = attempts.back()["backend"].text();
  const double count = request["attempts_total"].number().value_or(1);
  if (count > 1) text += fmt::format(" (attempt {:.0f})", count);
  return text;
}

constexpr auto right = TableColumn::Align::right;
constexpr auto left = TableColumn::Align::left;

/// The time of day of "2026-11-23T05:30:00.123Z".
std::string clock_text(const JsonValue& request) {
  const std::string& time = request["time"].text();
  return time.size() > 20 ? time.substr(11, 12) : time;
}

constexpr std::array<RequestColumn, 15> request_columns = {{
    {{"TIME", left, 8}, clock_text},
    {{"MODEL", left}, [](const JsonValue& request) { return request["model"].text(); }},
    {{"TENANT", left, 7},
     [](const JsonValue& request) {
       const std::string& tenant = request["tenant"].text();
       return tenant.empty() ? std::string("-") : tenant;
     }},
    {{"TASK", left, 9}, [](const JsonValue& request) { return request["task"].text(); }},
    {{"STATUS", right},
     [](const JsonValue& request) {
       return fmt::format("{:.0f}", request["status"].number().value_or(0));
     }},
    {{"IN", right, 2}, prompt_text},
    {{"CACHED", right, 7},
     [](const JsonValue& request) { return count_text(request["cached_tokens"]); }},
    {{"OUT", right, 1},
     [](const JsonValue& request) { return count_text(request["completion_tokens"]); }},
    {{"TTFT", right, 3},
     [](const JsonValue& request) { return latency_text(request["ttft_seconds"].number()); }},
    {{"TPOT", right, 4},
     [](const JsonValue& request) { return latency_text(request["tpot_seconds"].number()); }},
    {{"GAP", right, 10},
     [](const JsonValue& request) { return latency_text(request["max_gap_seconds"].number()); }},
    {{"TOOK", right, 5},
     [](const JsonValue& request) { return latency_text(request["duration_seconds"].number()); }},
    {{"ENDED BY", left, 6}, outcome_text},
    {{"BACKEND", left, 7}, backend_text},
    {{"ID", left, 2}, [](const JsonValue& request) { return request["request_id"].text(); }},
}};

}  // namespace

JsonValue filtered_requests(const JsonValue& requests, const RequestFilter& filter) {
  const auto took = [](const JsonValue& request) {
    return request["duration_seconds"].number().value_or(0);
  };
  const auto is_named = [](const std::string& wanted, const JsonValue& name) {
    return wanted.empty() || name.text() == wanted;
  };
  std::vector<JsonValue> shown;
  for (const JsonValue& request : requests.items()) {
    const bool failed =
        request["status"].number().value_or(0) >= 400 || !request["reason"].text().empty();
    if (filter.errors && !failed) continue;
    if (took(request) < seconds_of(filter.min_duration)) continue;
    if (!is_named(filter.tenant, request["tenant"]) || !is_named(filter.model, request["model"]) ||
        !is_named(filter.pool, request["pool"])) {
      continue;
    }
    const auto& attempts = request["attempts"].items();
    const bool at_backend =
        !attempts.empty() && is_named(filter.backend, attempts.back()["backend"]);
    if (!filter.backend.empty() && !at_backend) continue;
    shown.push_back(request);
  }
  if (filter.slowest_first) std::ranges::sort(shown, std::ranges::greater(), took);
  return JsonValue(std::move(shown));
}

Lines requests_text(const JsonValue& requests, std::optional<std::size_t> width) {
  if (requests.items().empty()) {
    return {"no requests: pools with `inspect: true` have them here when they have ended"};
  }
  std::vector<TableColumn> columns;
  for (const RequestColumn& column : request_columns) columns.push_back(column.table);
  TextTable table(std::move(columns));
  for (const JsonValue& request : requests.items()) {
    std::vector<std::string> row;
    for (const RequestColumn& column : request_columns) row.push_back(column.cell(request));
    table.add(std::move(row));
  }
  return table.lines(width);
}

}  // namespace evenkeel
