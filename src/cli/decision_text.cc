#include "cli/decision_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "evenkeel/base/text_table.h"

namespace evenkeel {
namespace {

std::string number_text(const JsonValue& number) {
  return number.number() ? fmt::format("{:.3f}", *number.number()) : "-";
}

constexpr auto right = TableColumn::Align::right;
constexpr auto left = TableColumn::Align::left;

/// A backend that the pool has no more is null.
std::string backend_text(const JsonValue& backend) {
  return backend.is_null() ? "a backend that is gone" : printable(backend.text());
}

constexpr std::array<DocumentColumn, 17> candidate_columns = {{
    {{"BACKEND", left}, "backend", backend_text},
    {{"STATE", left, 4}, "state", word_text},
    {{"COST", right}, "cost", number_text},
    {{"WAIT", right, 1}, "wait_seconds", seconds_text},
    {{"PROMISED", right, 10}, "promised_seconds", seconds_text},
    {{"PROMPT", right, 2}, "prefill_seconds", seconds_text},
    {{"LOAD", right, 14}, "load_seconds", seconds_text},
    {{"EVICTION", right, 15}, "eviction_seconds", seconds_text},
    {{"CACHED", right, 3}, "cached_tokens", count_text},
    {{"UNCACHED", right, 9}, "uncached_tokens", count_text},
    {{"LATENESS", right, 5}, "lateness", number_text},
    {{"VIOLATIONS", right, 6}, "violations", number_text},
    {{"DECODE", right, 7}, "decode_seconds", seconds_text},
    {{"MEMORY", right, 8}, "memory", number_text},
    {{"STREAMS", right, 11}, "streams", count_text},
    {{"HEARD", right, 13}, "heard_age_seconds", seconds_text},
    {{"CONFIDENCE", left, 12}, "confidence", word_text},
}};

/// The columns of pickers that keep no queue of their own.
constexpr std::array<DocumentColumn, 8> pick_columns = {{
    {{"BACKEND", left}, "backend", backend_text},
    {{"STATE", left}, "state", word_text},
    {{"COST", right}, "cost", number_text},
    {{"IN FLIGHT", right}, "in_flight", count_text},
    {{"WEIGHT", right, 3}, "weight", count_text},
    {{"RUNNING", right, 1}, "running", count_text},
    {{"WAITING", right, 1}, "waiting", count_text},
    {{"KV", right, 2}, "kv_cache_ratio", number_text},
}};

std::string outcome_text(const JsonValue& attempt) {
  std::string state = word_text(attempt["state"]);
  if (attempt["predicted"].is_null()) return state;
  return fmt::format("{}, on {}", state, backend_text(attempt["backend"]));
}

/// Empty if the request was not held.
std::string held_text(const JsonValue& held) {
  if (held["seconds"].number().value_or(0) <= 0) return "";
  std::string reasons;
  for (const auto& [reason, seconds] : held["by"].members()) {
    if (!reasons.empty()) reasons += ", ";
    reasons += fmt::format("{} {}", printable(reason), seconds_text(seconds));
  }
  std::string text = fmt::format("{} (by {})", seconds_text(held["seconds"]), reasons);
  if (!held["for"].is_null()) text += fmt::format(", last for {}", backend_text(held["for"]));
  return text;
}

std::string tokens_text(const JsonValue& tokens) {
  std::string text = fmt::format(
      "first token after {}, {} tokens cached, {} generated", seconds_text(tokens["ttft_seconds"]),
      count_text(tokens["cached_tokens"]), count_text(tokens["output_tokens"]));
  if (!tokens["seconds"].is_null()) {
    text += fmt::format(", ended after {}", seconds_text(tokens["seconds"]));
  }
  return text;
}

std::string shadow_text(const JsonValue& shadow) {
  const std::string choice = backend_text(shadow["backend"]);
  if (shadow["cost"].is_null()) return fmt::format("{}, which takes no requests", choice);
  return fmt::format("{} at {}, when the scheduler's choice was {} at {}", choice,
                     number_text(shadow["cost"]), backend_text(shadow["scheduler_backend"]),
                     number_text(shadow["scheduler_cost"]));
}

void add_fact(Lines& lines, std::string_view name, const std::string& text) {
  if (!text.empty()) lines.push_back(fmt::format("  {:<11}{}", name, text));
}

void add_candidates(Lines& lines, const JsonValue& attempt, std::span<const DocumentColumn> columns,
                    std::string_view others_text, std::optional<std::size_t> width) {
  const auto& candidates = attempt["candidates"].items();
  if (candidates.empty()) return add_fact(lines, "candidates", "it was not looked at");
  lines.emplace_back();
  for (std::string& line : documents_text(columns, candidates, width))
    lines.push_back(std::move(line));
  const double others =
      attempt["considered"].number().value_or(0) - static_cast<double>(candidates.size());
  if (others > 0) lines.push_back(fmt::format("and {:.0f} more{}", others, others_text));
}

/// An attempt that a picker has placed at once, or that took the first free slot.
void add_pick(Lines& lines, const JsonValue& attempt, std::optional<std::size_t> width) {
  const std::string& how = attempt["state"].text();
  const std::string picker = printable(attempt["picker"].text());
  const std::string text = how == "session"  ? "where its session is"
                           : how == "waited" ? fmt::format("the first free slot, after {}",
                                                           seconds_text(attempt["waited_seconds"]))
                                             : "by picker " + picker;
  lines.push_back(fmt::format("pool {}, {} ago: on {}, {}", printable(attempt["pool"].text()),
                              seconds_text(attempt["age_seconds"]),
                              backend_text(attempt["backend"]), text));
  add_candidates(lines, attempt, pick_columns, "", width);
}

std::string attempts_text(const JsonValue& request) {
  std::string text;
  for (const JsonValue& attempt : request["attempts"].items()) {
    if (!text.empty()) text += ", then ";
    text += fmt::format("{} {}", printable(attempt["backend"].text()),
                        printable(attempt["outcome"].text()));
  }
  return text;
}

/// How the request ended.
void add_request(Lines& lines, const JsonValue& request) {
  const auto word = [](const JsonValue& value) { return printable(value.text()); };
  const std::string reason = request["reason"].is_null() ? "" : " " + word(request["reason"]);
  lines.push_back(fmt::format("{}: {:.0f}{} after {}", word(request["time"]),
                              request["status"].number().value_or(0), reason,
                              seconds_text(request["duration_seconds"])));
  if (!request["path"].is_null()) {
    add_fact(lines, "request",
             fmt::format("{} {} of host {}", word(request["method"]), word(request["path"]),
                         word_text(request["host"])));
  }
  if (!request["detail"].is_null()) add_fact(lines, "because", word(request["detail"]));
  add_fact(lines, "placed",
           fmt::format("route {}, pool {}, model {}, tenant {}", word_text(request["route"]),
                       word_text(request["pool"]), word_text(request["model"]),
                       word_text(request["tenant"])));
  add_fact(lines, "attempts", attempts_text(request));
}

std::string mismatch_text(const JsonValue& mismatch) {
  if (mismatch.is_null()) return "takes it now, or by its header fields";
  return mismatch.text() == "not" ? "meets its `not`" : "other " + mismatch.text();
}

void add_routes(Lines& lines, const JsonValue& routes) {
  std::string text;
  for (const JsonValue& route : routes.items()) {
    if (!text.empty()) text += ", ";
    text +=
        fmt::format("{} ({})", printable(route["route"].text()), mismatch_text(route["mismatch"]));
  }
  add_fact(lines, "routes", text);
}

/// `requests`: with the same ID.
void add_attempt(Lines& lines, const JsonValue& attempt, double requests,
                 std::optional<std::size_t> width) {
  std::string which;
  if (requests > 1) {
    which = fmt::format("request {:.0f} of {:.0f}, ", attempt["request"].number().value_or(1),
                        requests);
  }
  lines.push_back(fmt::format("{}pool {}, {} ago: {}", which, printable(attempt["pool"].text()),
                              seconds_text(attempt["age_seconds"]), outcome_text(attempt)));
  add_fact(lines, "request",
           fmt::format("{} prompt tokens, priority {}", count_text(attempt["prompt_tokens"]),
                       word_text(attempt["priority"])));
  add_fact(lines, "targets",
           fmt::format("first token after {}, then {} for each",
                       seconds_text(attempt["ttft_target_seconds"]),
                       seconds_text(attempt["tpot_target_seconds"])));
  add_fact(lines, "held", held_text(attempt["held"]));
  if (!attempt["prompt_seconds"].is_null()) {
    add_fact(lines, "prompt",
             fmt::format("takes {} at least", seconds_text(attempt["prompt_seconds"])));
  }
  if (!attempt["predicted"].is_null()) {
    add_fact(lines, "predicted", tokens_text(attempt["predicted"]));
    add_fact(lines, "came true", tokens_text(attempt["outcome"]));
  }
  if (!attempt["shadow"].is_null()) add_fact(lines, "shadow", shadow_text(attempt["shadow"]));
  add_candidates(lines, attempt, candidate_columns, ", which cost more", width);
}

}  // namespace

Lines decision_text(const JsonValue& document, std::optional<std::size_t> width) {
  Lines lines;
  if (!document["ended"].is_null()) add_request(lines, document["ended"]);
  if (!document["routes"].is_null()) add_routes(lines, document["routes"]);
  double requests = 1;
  for (const JsonValue& attempt : document["attempts"].items()) {
    requests = std::max(requests, attempt["request"].number().value_or(1));
  }
  for (const JsonValue& attempt : document["attempts"].items()) {
    if (!lines.empty()) lines.emplace_back();
    if (attempt["held"].is_null()) {
      add_pick(lines, attempt, width);
    } else {
      add_attempt(lines, attempt, requests, width);
    }
  }
  return lines;
}

}  // namespace evenkeel
