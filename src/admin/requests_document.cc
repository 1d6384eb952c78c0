#include "admin/requests_document.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <ctime>
#include <string>
#include <string_view>
#include <vector>

#include "admin/documents.h"
#include "evenkeel/base/rfc3339.h"

namespace evenkeel {
namespace {

constexpr std::int64_t micros_per_second = 1'000'000;

/// RFC 3339 with milliseconds.
std::string time_text(std::int64_t micros) {
  std::string text =
      rfc3339(std::chrono::sys_seconds(std::chrono::seconds(micros / micros_per_second)));
  text.pop_back();
  return text + fmt::format(".{:03}Z", micros % micros_per_second / 1000);
}

JsonValue seconds_or_null(std::int64_t micros) {
  return micros < 0 ? JsonValue() : JsonValue(static_cast<double>(micros) / micros_per_second);
}

JsonValue count_or_null(std::int64_t count) { return count < 0 ? JsonValue() : JsonValue(count); }

JsonValue::List attempts_of(const RecentRequest& request) {
  JsonValue::List attempts;
  const auto kept = std::min<std::size_t>(request.attempt_count, RecentRequest::max_attempts);
  for (std::size_t i = 0; i < kept; ++i) {
    const RecentRequest::Attempt& each = request.attempts[i];
    JsonValue attempt;
    attempt.add("backend", each.backend.view());
    attempt.add("outcome", each.outcome.view());
    attempt.add("connect_seconds", seconds_or_null(each.connect));
    attempts.push_back(std::move(attempt));
  }
  return attempts;
}

void add_failure(JsonValue& document, const RecentRequest& request) {
  const RecentRequest::Failure& failure = request.failure;
  const auto text = [&](std::string_view value) {
    return request.has_failed ? text_or_null(value) : JsonValue();
  };
  document.add("method", text(failure.method.view()));
  document.add("host", text(failure.host.view()));
  document.add("path", text(failure.path.view()));
  document.add("detail", text(failure.detail.view()));
}

}  // namespace

JsonValue request_document(const RecentRequest& request) {
  JsonValue document;
  document.add("time", time_text(request.started));
  document.add("request_id", request.request_id.view());
  document.add("trace_id", text_or_null(request.trace_id.view()));
  document.add("route", text_or_null(request.route.view()));
  document.add("pool", text_or_null(request.pool.view()));
  document.add("tenant", text_or_null(request.tenant.view()));
  document.add("model", text_or_null(request.model.view()));
  document.add("task", text_or_null(request.task.view()));
  document.add("stream", request.stream);
  document.add("status", request.status);
  document.add("reason", text_or_null(request.reason.view()));
  add_failure(document, request);
  document.add("attempts_total", request.attempt_count);
  document.add("attempts", attempts_of(request));
  document.add("max_tokens", count_or_null(request.max_tokens));
  document.add("prompt_bytes", request.prompt_bytes);
  document.add("estimated_prompt_tokens", request.estimated_prompt_tokens);
  document.add("prompt_tokens", count_or_null(request.prompt_tokens));
  document.add("completion_tokens", count_or_null(request.completion_tokens));
  document.add("cached_tokens", count_or_null(request.cached_tokens));
  document.add("finish_reason", text_or_null(request.finish_reason.view()));
  document.add("duration_seconds", seconds_or_null(request.duration));
  document.add("wait_seconds", seconds_or_null(request.waited));
  document.add("ttft_seconds", seconds_or_null(request.first_token));
  document.add("tpot_seconds", seconds_or_null(request.per_output_token));
  document.add("max_gap_seconds", seconds_or_null(request.max_gap));
  return document;
}

std::optional<RecentRequest> find_request(const MetricsRegistry& registry,
                                          std::string_view request_id) {
  std::optional<RecentRequest> last;
  for (unsigned worker = 0; worker < registry.size(); ++worker) {
    const WorkerMetrics& metrics = registry.worker_metrics(worker);
    for (const RecentRequests* const list :
         {&metrics.recent_requests(), &metrics.recent_failures()}) {
      const auto found = list->find(request_id);
      if (found && (!last || last->ended() < found->ended())) last = found;
    }
  }
  return last;
}

JsonValue::List recent_requests_document(const MetricsRegistry& registry) {
  std::vector<RecentRequest> requests;
  for (unsigned worker = 0; worker < registry.size(); ++worker) {
    registry.worker_metrics(worker).recent_requests().append_to(requests);
  }
  std::sort(requests.begin(), requests.end(),
            [](const auto& a, const auto& b) { return a.ended() > b.ended(); });
  if (requests.size() > max_recent_requests) requests.resize(max_recent_requests);
  JsonValue::List documents;
  documents.reserve(requests.size());
  for (const RecentRequest& each : requests) documents.push_back(request_document(each));
  return documents;
}

}  // namespace evenkeel
