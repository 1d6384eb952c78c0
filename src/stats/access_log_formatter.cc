#include "evenkeel/stats/access_log_formatter.h"

#include <cstring>

#include "evenkeel/base/rfc3339.h"
#include "log_text.h"

namespace evenkeel {
namespace {

using namespace log_text;

// Maximum bytes of each value between its quotes. AccessLogBuffer must hold their sum.
constexpr std::size_t max_request_id_bytes = 128;
constexpr std::size_t max_trace_id_bytes = 32;
constexpr std::size_t max_client_bytes = 64;
constexpr std::size_t max_listener_bytes = 96;
constexpr std::size_t max_protocol_bytes = 16;
constexpr std::size_t max_method_bytes = 32;
constexpr std::size_t max_host_bytes = 255;
constexpr std::size_t max_path_bytes = 2048;
constexpr std::size_t max_route_bytes = 255;
constexpr std::size_t max_pool_bytes = 128;
constexpr std::size_t max_backend_bytes = 255;
constexpr std::size_t max_priority_bytes = 16;
constexpr std::size_t max_tenant_bytes = 64;
constexpr std::size_t max_reason_bytes = 48;
constexpr std::size_t max_model_bytes = 256;
constexpr std::size_t max_task_bytes = 16;
constexpr std::size_t max_finish_reason_bytes = 64;
constexpr std::size_t max_attempt_bytes =
    max_backend_bytes + max_reason_bytes + 80;  // with its keys and number
constexpr std::size_t max_keys_and_numbers_bytes = 1400;
static_assert(max_request_id_bytes + max_trace_id_bytes + 2 * max_client_bytes +
                  max_listener_bytes + max_protocol_bytes + max_method_bytes + max_host_bytes +
                  max_path_bytes + max_route_bytes + max_pool_bytes + max_backend_bytes +
                  max_priority_bytes + max_tenant_bytes + max_reason_bytes + max_model_bytes +
                  max_task_bytes + max_finish_reason_bytes +
                  AttemptList::capacity * max_attempt_bytes + max_keys_and_numbers_bytes <=
              std::tuple_size_v<AccessLogBuffer>);

class LineWriter : public Writer {
 public:
  using Writer::number;
  using Writer::Writer;

  void date(const std::array<char, 20>& date) { plain({date.data(), date.size()}); }
  template <class Integer>
  void number(const std::optional<Integer>& value) {
    at_ = value ? put_number(at_, *value) : put(at_, "null");
  }
  /// Two digits. REQUIRES: value < 100.
  void pair(unsigned value) { at_ = put_pair(at_, value); }
  void milliseconds(Duration duration) { at_ = put_milliseconds(at_, duration); }
  void milliseconds(const std::optional<Duration>& duration) {
    at_ = duration ? put_milliseconds(at_, *duration) : put(at_, "null");
  }
};

/// Writes what was requested, by which client, and which backend got it.
void write_target(LineWriter& line, const AccessLogEntry& entry) {
  line.text(",\"request_id\":");
  line.string(entry.request_id, max_request_id_bytes);
  if (!entry.trace_id.empty()) {
    line.text(",\"trace_id\":");
    line.string(entry.trace_id, max_trace_id_bytes);
  }
  line.text(",\"client\":");
  line.string(entry.client, max_client_bytes);
  if (!entry.peer.empty()) {
    line.text(",\"peer\":");
    line.string(entry.peer, max_client_bytes);
  }
  line.text(",\"listener\":");
  line.string(entry.listener, max_listener_bytes);
  line.text(",\"protocol\":");
  line.string(entry.protocol, max_protocol_bytes);
  line.text(",\"method\":");
  line.string(entry.method, max_method_bytes);
  line.text(",\"host\":");
  line.string(entry.host, max_host_bytes);
  line.text(",\"path\":");
  line.string(entry.path, max_path_bytes);
  line.text(",\"route\":");
  line.string(entry.route, max_route_bytes);
  line.text(",\"pool\":");
  line.string(entry.pool, max_pool_bytes);
  line.text(",\"backend\":");
  line.string(entry.backend, max_backend_bytes);
  if (!entry.priority.empty()) {
    line.text(",\"priority\":");
    line.string(entry.priority, max_priority_bytes);
  }
  if (!entry.tenant.empty()) {
    line.text(",\"tenant\":");
    line.string(entry.tenant, max_tenant_bytes);
  }
}

void write_attempts(LineWriter& line, const AccessLogEntry& entry) {
  line.text(",\"attempts\":[");
  for (const AttemptRecord& attempt : entry.attempts) {
    const bool last = &attempt == &entry.attempts.back();
    line.text("{\"backend\":");
    line.string(attempt.backend, max_backend_bytes);
    line.text(",\"outcome\":");
    line.string(outcome_of(attempt, last, entry.reason), max_reason_bytes);
    if (attempt.status != 0) {
      line.text(",\"status\":");
      line.number(attempt.status);
    }
    line.text(",\"connect_ms\":");
    line.milliseconds(attempt.connect);
    line.text("}");
    if (!last) line.text(",");
  }
  line.text("]");
}

void write_times(LineWriter& line, const AccessLogEntry& entry) {
  line.text(",\"duration_ms\":");
  line.milliseconds(entry.duration);
  line.text(",\"head_ms\":");
  line.milliseconds(entry.head);
  line.text(",\"wait_ms\":");
  line.milliseconds(entry.waited);
  line.text(",\"connect_ms\":");
  line.milliseconds(entry.connect);
  line.text(",\"retry_ms\":");
  line.milliseconds(entry.retry);
  line.text(",\"overhead_ms\":");
  line.milliseconds(entry.overhead);
  line.text(",\"backend_ms\":");
  line.milliseconds(entry.backend_time);
  line.text(",\"ttfb_ms\":");
  line.milliseconds(entry.first_byte);
}

void write_inference(LineWriter& line, const AccessLogInference& inference) {
  line.text(",\"model\":");
  line.string(inference.model, max_model_bytes);
  line.text(",\"task\":");
  line.string(inference.task, max_task_bytes);
  if (inference.stream) {
    line.text(",\"stream\":true");
  } else {
    line.text(",\"stream\":false");
  }
  line.text(",\"max_tokens\":");
  line.number(inference.max_tokens);
  line.text(",\"prompt_bytes\":");
  line.number(inference.prompt_bytes);
  line.text(",\"prompt_tokens\":");
  line.number(inference.prompt_tokens);
  line.text(",\"completion_tokens\":");
  line.number(inference.completion_tokens);
  line.text(",\"cached_tokens\":");
  line.number(inference.cached_tokens);
  line.text(",\"finish_reason\":");
  line.string(inference.finish_reason, max_finish_reason_bytes);
  line.text(",\"body_ms\":");
  line.milliseconds(inference.awaited_body);
  line.text(",\"ttft_ms\":");
  line.milliseconds(inference.first_token);
  line.text(",\"tpot_ms\":");
  line.milliseconds(inference.per_output_token);
  line.text(",\"max_gap_ms\":");
  line.milliseconds(inference.max_gap);
}

}  // namespace

std::string_view outcome_of(const AttemptRecord& attempt, bool last, std::string_view reason) {
  if (attempt.fault) return to_string(*attempt.fault);
  return last && !reason.empty() ? reason : "answered";
}

void WallClock::sync() {
  const Instant now = monotonic_();
  offset_ =
      std::chrono::duration_cast<Duration>(now_().time_since_epoch()) - now.time_since_epoch();
  next_sync_ = now + std::chrono::seconds(1);
}

std::string_view AccessLogFormatter::format(const AccessLogEntry& entry, AccessLogBuffer& buffer) {
  const auto micros =
      std::chrono::floor<std::chrono::microseconds>(entry.time.time_since_epoch()).count();
  const std::int64_t second = micros / 1'000'000;
  if (second != second_) {
    second_ = second;
    *put_rfc3339(date_.data(), std::chrono::sys_seconds(std::chrono::seconds(second))) = '.';
  }

  LineWriter line(buffer.data());
  line.text("{\"time\":\"");
  line.date(date_);
  const auto fraction = static_cast<unsigned>(micros % 1'000'000);
  line.pair(fraction / 10'000);
  line.pair(fraction / 100 % 100);
  line.pair(fraction % 100);
  line.text("Z\"");
  write_target(line, entry);
  line.text(",\"status\":");
  if (entry.status <= 0) {
    line.text("null");
  } else {
    line.number(static_cast<unsigned>(entry.status));
  }
  if (entry.grpc_status) {
    line.text(",\"grpc_status\":");
    line.number(*entry.grpc_status);
  }
  line.text(",\"reason\":");
  line.string(entry.reason, max_reason_bytes);
  write_attempts(line, entry);
  line.text(",\"bytes_in\":");
  line.number(entry.bytes_in);
  line.text(",\"bytes_out\":");
  line.number(entry.bytes_out);
  write_times(line, entry);
  if (entry.inference != nullptr) [[unlikely]]
    write_inference(line, *entry.inference);
  if (entry.aborted) {
    line.text(",\"aborted\":true}\n");
  } else {
    line.text(",\"aborted\":false}\n");
  }
  return {buffer.data(), static_cast<std::size_t>(line.end() - buffer.data())};
}

}  // namespace evenkeel
