#include "cli/usage_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "cli/duration_text.h"
#include "evenkeel/base/decimal.h"
#include "evenkeel/base/rfc3339.h"
#include "evenkeel/base/text_table.h"
#include "evenkeel/json/value.h"

namespace evenkeel {
namespace {

constexpr auto right = TableColumn::Align::right;

const std::string& name_of(UsageKey key) {
  return usage_key_names()[static_cast<std::size_t>(key)];
}

double estimated_ratio(const UsageSum& sum) {
  return sum.requests == 0 ? 0
                           : static_cast<double>(sum.estimated) / static_cast<double>(sum.requests);
}

/// Empty where no request has a price.
std::string cost_text(const UsageSum& sum) {
  return sum.unpriced == sum.requests ? std::string() : sum.cost.text();
}

void add_sums(std::vector<std::string>& row, const UsageSum& sum) {
  const std::string cost = cost_text(sum);
  row.push_back(std::to_string(sum.requests));
  row.push_back(std::to_string(sum.input_tokens));
  row.push_back(std::to_string(sum.cached_tokens));
  row.push_back(std::to_string(sum.output_tokens));
  row.push_back(cost.empty() ? "-" : cost);
  row.push_back(fmt::format("{:.3g} %", 100 * estimated_ratio(sum)));
  row.push_back(std::to_string(sum.unpriced));
}

void add_sums(JsonValue& object, const UsageSum& sum) {
  const std::string cost = cost_text(sum);
  object.add("requests", sum.requests);
  object.add("input_tokens", sum.input_tokens);
  object.add("cached_tokens", sum.cached_tokens);
  object.add("output_tokens", sum.output_tokens);
  object.add("cost", cost.empty() ? JsonValue() : JsonValue(JsonValue::Number{cost}));
  object.add("estimated_ratio", estimated_ratio(sum));
  object.add("unpriced_requests", sum.unpriced);
}

}  // namespace

const std::vector<std::string>& usage_key_names() {
  static const std::vector<std::string> names{"tenant", "model", "key", "day", "pool"};
  return names;
}

std::optional<Duration> parse_usage_time(std::string_view text, Duration now) {
  if (const auto time = parse_rfc3339(text)) return time;
  if (const auto midnight = parse_rfc3339(std::string(text) + "T00:00:00Z")) return midnight;
  std::optional<Duration> before;
  if (text.ends_with('d')) {
    const auto days = parse_number<std::uint32_t>(text.substr(0, text.size() - 1));
    if (days && *days < 100'000) before = std::chrono::days(*days);
  } else {
    before = parse_duration(text);
  }
  if (!before) return std::nullopt;
  return now - *before;
}

std::string usage_table(const UsageTotals& totals) {
  std::vector<std::string> headings;
  for (const UsageKey key : totals.by()) {
    std::string heading = name_of(key);
    std::ranges::transform(heading, heading.begin(),
                           [](char c) { return static_cast<char>(c - 'a' + 'A'); });
    headings.push_back(std::move(heading));
  }
  std::vector<TableColumn> columns;
  for (const std::string& heading : headings) columns.push_back({heading});
  for (const char* const heading :
       {"REQUESTS", "INPUT", "CACHED", "OUTPUT", "COST", "ESTIMATED", "UNPRICED"}) {
    columns.push_back({heading, right});
  }
  TextTable table(std::move(columns));
  const bool has_groups = !totals.by().empty();
  if (has_groups) {
    for (const auto& [names, sum] : totals.groups()) {
      std::vector<std::string> row;
      for (const std::string& name : names) row.push_back(name.empty() ? "-" : name);
      add_sums(row, sum);
      table.add(std::move(row));
    }
  }
  if (!has_groups || totals.groups().size() > 1) {
    std::vector<std::string> row(totals.by().size());
    if (has_groups) row[0] = "all";
    add_sums(row, totals.total());
    table.add(std::move(row));
  }
  std::string text;
  for (const std::string& line : table.lines()) text += line + "\n";
  return text;
}

std::string usage_json(const UsageTotals& totals) {
  JsonValue::List rows;
  for (const auto& [names, sum] : totals.groups()) {
    if (totals.by().empty()) break;
    JsonValue row = JsonValue::Object();
    for (std::size_t i = 0; i < names.size(); ++i) {
      row.add(name_of(totals.by()[i]), names[i].empty() ? JsonValue() : JsonValue(names[i]));
    }
    add_sums(row, sum);
    rows.push_back(std::move(row));
  }
  JsonValue total = JsonValue::Object();
  add_sums(total, totals.total());
  JsonValue document = JsonValue::Object();
  document.add("rows", std::move(rows));
  document.add("total", std::move(total));
  document.add("duplicates", totals.duplicates());
  document.add("useless_lines", totals.useless_lines());
  return json_text(document) + "\n";
}

}  // namespace evenkeel
