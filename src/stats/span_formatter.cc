#include "evenkeel/stats/span_formatter.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "evenkeel/base/decimal.h"
#include "evenkeel/base/hex.h"
#include "log_text.h"

namespace evenkeel {
namespace {

using namespace log_text;

// Maximum bytes of values between their quotes. SpanBuffer must hold the spans of a request with
// as many attempts as there can be.
constexpr std::size_t max_short_bytes = 64;  // methods, reasons, tasks
constexpr std::size_t max_name_bytes = 128;  // of pools, listeners, request ids
constexpr std::size_t max_long_bytes = 255;  // hosts, routes, backends, models
constexpr std::size_t max_path_bytes = 2048;
constexpr std::size_t max_key_bytes = 96;  // of an attribute, with what is around its value
constexpr std::size_t max_frame_bytes = 400;
constexpr std::size_t max_attributes = 24;
// The request: its path, its longest values, and the rest of its attributes.
constexpr std::size_t max_request_bytes = max_frame_bytes + max_path_bytes + 6 * max_long_bytes +
                                          max_attributes * (max_name_bytes + max_key_bytes);
// An attempt: its name has a method and a pool, its backend appears twice.
constexpr std::size_t max_attempt_bytes =
    max_frame_bytes + 4 * max_long_bytes + 14 * max_key_bytes + 7 * max_short_bytes;
// The last attempt has the model besides.
constexpr std::size_t max_model_bytes = max_long_bytes + 3 * max_short_bytes + 10 * max_key_bytes;
static_assert(max_request_bytes + max_frame_bytes + AttemptList::capacity * max_attempt_bytes +
                  max_model_bytes <=
              std::tuple_size_v<SpanBuffer>);

enum class SpanKind : std::uint8_t { internal = 1, server = 2, client = 3 };

using Time = std::chrono::system_clock::time_point;

class AttributeWriter : public Writer {
 public:
  using Writer::Writer;

  void hex(std::uint64_t number) { at_ = put_hex(at_, number); }
  void nanoseconds(Time time) {
    const auto since =
        std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch());
    at_ = put_number(at_, static_cast<std::uint64_t>(std::max<std::int64_t>(since.count(), 0)));
  }
  /// Inside a string.
  void escaped(std::string_view value, std::size_t capacity) {
    at_ = put_escaped(at_, value, capacity);
  }

  void begin_attributes() {
    text(",\"attributes\":[");
    first_ = true;
  }
  void end_attributes() { text("]"); }
  /// An empty one is left out.
  template <std::size_t N>
  void attribute(const char (&key)[N], std::string_view value, std::size_t capacity) {
    if (value.empty()) return;
    begin_attribute(key);
    text("\"stringValue\":");
    string(value, capacity);
    text("}}");
  }
  /// 64 bits are strings in OTLP's JSON.
  template <std::size_t N>
  void attribute(const char (&key)[N], std::uint64_t value) {
    begin_attribute(key);
    text("\"intValue\":\"");
    number(value);
    text("\"}}");
  }
  template <std::size_t N, class Integer>
  void attribute(const char (&key)[N], const std::optional<Integer>& value) {
    if (value) attribute(key, static_cast<std::uint64_t>(*value));
  }
  template <std::size_t N>
  void milliseconds(const char (&key)[N], const std::optional<Duration>& value) {
    if (!value) return;
    begin_attribute(key);
    text("\"doubleValue\":");
    at_ = put_milliseconds(at_, *value);
    text("}}");
  }
  template <std::size_t N>
  void seconds(const char (&key)[N], const std::optional<Duration>& value) {
    if (!value) return;
    begin_attribute(key);
    text("\"doubleValue\":");
    const auto micros = std::chrono::duration_cast<std::chrono::microseconds>(*value).count();
    const auto whole = static_cast<std::uint64_t>(std::max<std::int64_t>(micros, 0));
    number(whole / 1'000'000);
    text(".");
    at_ = put_triple(at_, static_cast<unsigned>(whole / 1000 % 1000));
    at_ = put_triple(at_, static_cast<unsigned>(whole % 1000));
    text("}}");
  }
  /// A list of one text.
  template <std::size_t N>
  void list(const char (&key)[N], std::string_view value, std::size_t capacity) {
    if (value.empty()) return;
    begin_attribute(key);
    text("\"arrayValue\":{\"values\":[{\"stringValue\":");
    string(value, capacity);
    text("}]}}}");
  }
  template <std::size_t N>
  void flag(const char (&key)[N], bool value) {
    begin_attribute(key);
    text("\"boolValue\":");
    plain(value ? "true}}" : "false}}");
  }

 private:
  template <std::size_t N>
  void begin_attribute(const char (&key)[N]) {
    static_assert(N + 32 < max_key_bytes);
    if (!first_) text(",");
    first_ = false;
    text("{\"key\":\"");
    text(key);
    text("\",\"value\":{");
  }

  bool first_ = true;
};

/// One request's spans, one after the other.
class SpanWriter {
 public:
  SpanWriter(const AccessLogEntry& entry, const RequestSpans& spans, char* at)
      : entry_(entry), spans_(spans), out_(at) {}

  void write_request();
  void write_queue();
  void write_attempt(std::size_t index);

  char* end() const { return out_.end(); }

 private:
  Time time_of(Instant instant) const {
    return entry_.time + std::chrono::duration_cast<Time::duration>(instant - spans_.started);
  }
  Time end_of_request() const {
    return entry_.time + std::chrono::duration_cast<Time::duration>(entry_.duration);
  }
  std::string_view status_text(int status) {
    char* const end = put_number(status_.data(), static_cast<unsigned>(status));
    return {status_.data(), static_cast<std::size_t>(end - status_.data())};
  }
  /// Up to the name, which may follow in pieces.
  void begin_span(std::uint64_t id, SpanKind kind, Time begin, Time end);
  void end_span(bool failed, std::string_view failure);
  void write_address(std::string_view authority);
  void write_model(const AccessLogInference& inference);
  void write_model_for_gen_ai(const AccessLogInference& inference);

  const AccessLogEntry& entry_;
  const RequestSpans& spans_;
  AttributeWriter out_;
  std::array<char, max_decimal_digits> status_;
};

void SpanWriter::begin_span(std::uint64_t id, SpanKind kind, Time begin, Time end) {
  if (id != spans_.first) out_.text(",");
  out_.text("{\"traceId\":\"");
  out_.plain(spans_.trace_id);
  out_.text("\",\"spanId\":\"");
  out_.hex(id);
  const bool is_request = id == spans_.first;
  if (!is_request || !spans_.parent.empty()) {
    out_.text("\",\"parentSpanId\":\"");
    if (is_request) {
      out_.plain(spans_.parent);
    } else {
      out_.hex(spans_.first);
    }
  }
  out_.text("\",\"kind\":");
  out_.plain(kind == SpanKind::server ? "2" : kind == SpanKind::client ? "3" : "1");
  out_.text(",\"startTimeUnixNano\":\"");
  out_.nanoseconds(begin);
  out_.text("\",\"endTimeUnixNano\":\"");
  out_.nanoseconds(std::max(begin, end));
  out_.text("\",\"name\":\"");
}

void SpanWriter::end_span(bool failed, std::string_view failure) {
  out_.end_attributes();
  if (failed) {
    out_.text(",\"status\":{\"code\":2,\"message\":\"");
    out_.escaped(failure, max_short_bytes);
    out_.text("\"}");
  }
  out_.text("}");
}

void SpanWriter::write_request() {
  begin_span(spans_.first, SpanKind::server, entry_.time, end_of_request());
  out_.escaped(entry_.method, max_short_bytes);
  if (!entry_.route.empty()) {
    out_.text(" ");
    out_.escaped(entry_.route, max_long_bytes);
  }
  out_.text("\"");
  out_.begin_attributes();
  out_.attribute("http.request.method", entry_.method, max_short_bytes);
  out_.attribute("http.route", entry_.route, max_long_bytes);
  const std::size_t query = std::min(entry_.path.find('?'), entry_.path.size());
  out_.attribute("url.path", entry_.path.substr(0, query), max_path_bytes);
  out_.attribute("url.scheme", spans_.secure ? "https" : "http", max_short_bytes);
  write_address(entry_.host);
  out_.attribute("client.address", entry_.client, max_short_bytes);
  constexpr std::string_view protocol = "HTTP/";
  if (entry_.protocol.starts_with(protocol)) {
    out_.attribute("network.protocol.version", entry_.protocol.substr(protocol.size()),
                   max_short_bytes);
  }
  if (entry_.status > 0) {
    out_.attribute("http.response.status_code", static_cast<unsigned>(entry_.status));
  }
  if (entry_.grpc_status) out_.attribute("rpc.grpc.status_code", entry_.grpc_status);
  std::string_view failure = entry_.reason;
  if (failure.empty() && entry_.status >= 500) failure = status_text(entry_.status);
  out_.attribute("error.type", failure, max_short_bytes);
  out_.attribute("http.request.body.size", entry_.bytes_in);
  out_.attribute("http.response.body.size", entry_.bytes_out);
  out_.attribute("evenkeel.request_id", entry_.request_id, max_name_bytes);
  out_.attribute("evenkeel.listener", entry_.listener, max_name_bytes);
  out_.attribute("evenkeel.pool", entry_.pool, max_name_bytes);
  out_.attribute("evenkeel.backend", entry_.backend, max_long_bytes);
  out_.attribute("evenkeel.tenant", entry_.tenant, max_short_bytes);
  out_.attribute("evenkeel.priority", entry_.priority, max_short_bytes);
  out_.attribute("evenkeel.attempts", entry_.attempts.size());
  out_.milliseconds("evenkeel.overhead_ms", std::optional(entry_.overhead));
  out_.milliseconds("evenkeel.ttfb_ms", entry_.first_byte);
  end_span(has_failed(entry_.status, entry_.aborted, entry_.grpc_status), failure);
}

void SpanWriter::write_queue() {
  begin_span(spans_.first + 1, SpanKind::internal, time_of(spans_.queued),
             time_of(spans_.queued + entry_.waited));
  out_.text("queue\"");
  out_.begin_attributes();
  out_.attribute("evenkeel.pool", entry_.pool, max_name_bytes);
  const bool has_given_up = entry_.attempts.empty() && !entry_.reason.empty();
  end_span(has_given_up, entry_.reason);
}

/// `authority`: host or host:port, with brackets around an IPv6 address.
void SpanWriter::write_address(std::string_view authority) {
  const std::size_t colon = authority.find(':', authority.rfind(']') + 1);  // npos + 1: 0
  std::string_view host = authority.substr(0, colon);
  if (host.size() > 2 && host.front() == '[') host = host.substr(1, host.size() - 2);
  out_.attribute("server.address", host, max_long_bytes);
  if (colon == std::string_view::npos) return;
  if (const auto port = parse_number<std::uint16_t>(authority.substr(colon + 1)))
    out_.attribute("server.port", *port);
}

void SpanWriter::write_attempt(std::size_t index) {
  const AttemptRecord& attempt = entry_.attempts[index];
  const bool last = index + 1 == entry_.attempts.size();
  const bool has_ended = attempt.ended != Instant{};
  const bool answered = last && !attempt.fault && entry_.status > 0 && entry_.status != 499;
  const int status = answered ? entry_.status : attempt.status;
  begin_span(spans_.first + spans_.before_attempts + index, SpanKind::client,
             time_of(attempt.began), has_ended ? time_of(attempt.ended) : end_of_request());
  out_.escaped(entry_.method, max_short_bytes);
  out_.text(" ");
  out_.escaped(entry_.pool, max_name_bytes);
  out_.text("\"");
  out_.begin_attributes();
  out_.attribute("http.request.method", entry_.method, max_short_bytes);
  write_address(attempt.backend);
  if (status > 0) out_.attribute("http.response.status_code", static_cast<unsigned>(status));
  if (index > 0) out_.attribute("http.request.resend_count", index);
  std::string_view failure = outcome_of(attempt, last, entry_.reason);
  if (failure == "answered") {
    failure = status >= 400 ? status_text(status) : std::string_view();
  }
  out_.attribute("error.type", failure, max_short_bytes);
  out_.attribute("evenkeel.backend", attempt.backend, max_long_bytes);
  out_.attribute("evenkeel.pool", entry_.pool, max_name_bytes);
  out_.attribute("evenkeel.picker", spans_.picker, max_short_bytes);
  out_.attribute("evenkeel.pick.reason", to_string(attempt.why), max_short_bytes);
  out_.milliseconds("evenkeel.connect_ms", std::optional(attempt.connect));
  if (last && entry_.inference != nullptr) write_model(*entry_.inference);
  end_span(!failure.empty(), failure);
}

void SpanWriter::write_model(const AccessLogInference& inference) {
  if (spans_.uses_gen_ai_names) return write_model_for_gen_ai(inference);
  out_.attribute("evenkeel.model", inference.model, max_long_bytes);
  out_.attribute("evenkeel.task", inference.task, max_short_bytes);
  out_.flag("evenkeel.stream", inference.stream);
  out_.attribute("evenkeel.max_tokens", inference.max_tokens);
  out_.attribute("evenkeel.prompt_tokens", inference.prompt_tokens);
  out_.attribute("evenkeel.completion_tokens", inference.completion_tokens);
  out_.attribute("evenkeel.cached_tokens", inference.cached_tokens);
  out_.attribute("evenkeel.finish_reason", inference.finish_reason, max_short_bytes);
  out_.milliseconds("evenkeel.ttft_ms", inference.first_token);
  out_.milliseconds("evenkeel.tpot_ms", inference.per_output_token);
}

/// OpenTelemetry's word for a task; empty: it has none.
std::string_view operation_of(std::string_view task) {
  if (task == "chat") return "chat";
  if (task == "completion") return "text_completion";
  return task == "embedding" ? "embeddings" : std::string_view();
}

void SpanWriter::write_model_for_gen_ai(const AccessLogInference& inference) {
  out_.attribute("gen_ai.operation.name", operation_of(inference.task), max_short_bytes);
  out_.attribute("gen_ai.request.model", inference.model, max_long_bytes);
  out_.flag("gen_ai.request.stream", inference.stream);
  out_.attribute("gen_ai.request.max_tokens", inference.max_tokens);
  out_.attribute("gen_ai.usage.input_tokens", inference.prompt_tokens);
  out_.attribute("gen_ai.usage.output_tokens", inference.completion_tokens);
  out_.attribute("gen_ai.usage.cache_read.input_tokens", inference.cached_tokens);
  out_.list("gen_ai.response.finish_reasons", inference.finish_reason, max_short_bytes);
  out_.seconds("gen_ai.response.time_to_first_chunk", inference.first_token);
}

}  // namespace

bool has_failed(int status, bool aborted, std::optional<std::uint8_t> grpc_status) {
  if (status >= 500 || (aborted && status != 499)) return true;
  // The statuses that are a server's fault: unknown, deadline_exceeded, unimplemented, internal,
  // unavailable, data_loss.
  constexpr std::uint32_t faults = 1U << 2 | 1U << 4 | 1U << 12 | 1U << 13 | 1U << 14 | 1U << 15;
  return grpc_status && *grpc_status < 32 && (faults >> *grpc_status & 1) != 0;
}

std::string_view format_spans(const AccessLogEntry& entry, const RequestSpans& spans,
                              SpanBuffer& buffer) {
  SpanWriter writer(entry, spans, buffer.data());
  writer.write_request();
  if (spans.has_waited()) writer.write_queue();
  for (std::size_t i = 0; i < entry.attempts.size(); ++i) writer.write_attempt(i);
  return {buffer.data(), static_cast<std::size_t>(writer.end() - buffer.data())};
}

}  // namespace evenkeel
