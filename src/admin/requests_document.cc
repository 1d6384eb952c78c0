#include "admin/requests_document.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <cstdint>
#include <ctime>
#include <string>
#include <string_view>
#include <vector>

namespace evenkeel {
namespace {

namespace json = boost::json;

constexpr std::int64_t micros_per_second = 1'000'000;

/// RFC 3339 with milliseconds.
std::string time_text(std::int64_t micros) {
  const auto seconds = static_cast<std::time_t>(micros / micros_per_second);
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  std::array<char, 32> text;
  const std::size_t size = std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%S", &parts);
  return fmt::format("{}.{:03}Z", std::string_view(text.data(), size),
                     micros % micros_per_second / 1000);
}

json::value seconds_or_null(std::int64_t micros) {
  return micros < 0 ? json::value() : json::value(static_cast<double>(micros) / micros_per_second);
}

json::value count_or_null(std::int64_t count) {
  return count < 0 ? json::value() : json::value(count);
}

json::value text_or_null(std::string_view text) {
  return text.empty() ? json::value() : json::value(text);
}

json::array attempts_of(const RecentRequest& request) {
  json::array attempts;
  const auto kept = std::min<std::size_t>(request.attempt_count, RecentRequest::max_attempts);
  for (std::size_t i = 0; i < kept; ++i) {
    const RecentRequest::Attempt& each = request.attempts[i];
    json::object attempt;
    attempt["backend"] = each.backend.view();
    attempt["outcome"] = each.outcome.view();
    attempt["connect_seconds"] = seconds_or_null(each.connect);
    attempts.push_back(std::move(attempt));
  }
  return attempts;
}

json::object document_of(const RecentRequest& request) {
  json::object document;
  document["time"] = time_text(request.started);
  document["request_id"] = request.request_id.view();
  document["route"] = text_or_null(request.route.view());
  document["pool"] = text_or_null(request.pool.view());
  document["tenant"] = text_or_null(request.tenant.view());
  document["model"] = text_or_null(request.model.view());
  document["task"] = request.task.view();
  document["stream"] = request.stream;
  document["status"] = request.status;
  document["reason"] = text_or_null(request.reason.view());
  document["attempts_total"] = request.attempt_count;
  document["attempts"] = attempts_of(request);
  document["max_tokens"] = count_or_null(request.max_tokens);
  document["prompt_bytes"] = request.prompt_bytes;
  document["estimated_prompt_tokens"] = request.estimated_prompt_tokens;
  document["prompt_tokens"] = count_or_null(request.prompt_tokens);
  document["completion_tokens"] = count_or_null(request.completion_tokens);
  document["cached_tokens"] = count_or_null(request.cached_tokens);
  document["finish_reason"] = text_or_null(request.finish_reason.view());
  document["duration_seconds"] = seconds_or_null(request.duration);
  document["wait_seconds"] = seconds_or_null(request.waited);
  document["ttft_seconds"] = seconds_or_null(request.first_token);
  document["tpot_seconds"] = seconds_or_null(request.per_output_token);
  document["max_gap_seconds"] = seconds_or_null(request.max_gap);
  return document;
}

std::int64_t ended(const RecentRequest& request) { return request.started + request.duration; }

}  // namespace

json::array recent_requests_document(const MetricsRegistry& registry) {
  std::vector<RecentRequest> requests;
  for (unsigned worker = 0; worker < registry.size(); ++worker) {
    registry.worker_metrics(worker).recent_requests().append_to(requests);
  }
  std::sort(requests.begin(), requests.end(),
            [](const auto& a, const auto& b) { return ended(a) > ended(b); });
  if (requests.size() > max_recent_requests) requests.resize(max_recent_requests);
  json::array documents;
  documents.reserve(requests.size());
  for (const RecentRequest& each : requests) documents.push_back(document_of(each));
  return documents;
}

}  // namespace evenkeel
