#include "cli/requests_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "evenkeel/base/text_table.h"

namespace evenkeel {
namespace {

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
std::string clock_text(const JsonValue& time) {
  return time.text().size() > 20 ? time.text().substr(11, 12) : time.text();
}

std::string code_text(const JsonValue& status) {
  return fmt::format("{:.0f}", status.number().value_or(0));
}

constexpr std::array<DocumentColumn, 15> request_columns = {{
    {{"TIME", left, 8}, "time", clock_text},
    {{"MODEL", left}, "model", plain_text},
    {{"TENANT", left, 7}, "tenant", word_text},
    {{"TASK", left, 9}, "task", plain_text},
    {{"STATUS", right}, "status", code_text},
    {{"IN", right, 2}, "", prompt_text},
    {{"CACHED", right, 7}, "cached_tokens", count_text},
    {{"OUT", right, 1}, "completion_tokens", count_text},
    {{"TTFT", right, 3}, "ttft_seconds", seconds_text},
    {{"TPOT", right, 4}, "tpot_seconds", seconds_text},
    {{"GAP", right, 10}, "max_gap_seconds", seconds_text},
    {{"TOOK", right, 5}, "duration_seconds", seconds_text},
    {{"ENDED BY", left, 6}, "", outcome_text},
    {{"BACKEND", left, 7}, "", backend_text},
    {{"ID", left, 2}, "request_id", plain_text},
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
  return documents_text(request_columns, requests.items(), width);
}

}  // namespace evenkeel
