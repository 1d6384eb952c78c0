#include "evenkeel/stats/access_log_formatter.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "access_log_names.h"
#include "access_log_values.h"
#include "evenkeel/base/rfc3339.h"
#include "log_text.h"

namespace evenkeel {
namespace {

using namespace access_log_values;
using namespace log_text;
using access_log_names::json_key;

/// Writes "31/Jan/2026:23:59:59 +0000", as Apache and nginx do.
void put_local_time(char* at, std::chrono::sys_seconds time) {
  constexpr char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
  const auto day = std::chrono::floor<std::chrono::days>(time);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss clock(time - day);
  at = put_pair(at, static_cast<unsigned>(date.day()));
  *at++ = '/';
  std::memcpy(at, &months[3 * (static_cast<unsigned>(date.month()) - 1)], 3);
  at[3] = '/';
  const auto year = static_cast<unsigned>(std::clamp(static_cast<int>(date.year()), 0, 9999));
  at = put_pair(put_pair(at + 4, year / 100), year % 100);
  for (const auto part :
       {clock.hours().count(), clock.minutes().count(), clock.seconds().count()}) {
    *at = ':';
    at = put_pair(at + 1, static_cast<unsigned>(part));
  }
  put(at, " +0000");
}

/// A line's time, as text and beyond its second.
struct LineTime {
  const AccessLogDates& dates;
  unsigned fraction;  // in microseconds
};

/// Writes values as all formats have them. What is not known is nothing.
class LineWriter : public Writer {
 public:
  LineWriter(char* at, const LineTime& time) : Writer(at), time_(time) {}

  using Writer::number;
  void flag(bool value) {
    if (value) {
      text("true");
    } else {
      text("false");
    }
  }
  void milliseconds(Duration duration) { at_ = put_milliseconds(at_, duration); }
  void time() {
    plain({time_.dates.utc.data(), time_.dates.utc.size()});
    at_ = put_pair(at_, time_.fraction / 10'000);
    at_ = put_pair(at_, time_.fraction / 100 % 100);
    at_ = put_pair(at_, time_.fraction % 100);
    text("Z");
  }
  void null() {}
  template <class Integer>
  void number(const std::optional<Integer>& value) {
    if (value) number(static_cast<std::uint64_t>(*value));
  }
  void milliseconds(const std::optional<Duration>& duration) {
    if (duration) milliseconds(*duration);
  }

 protected:
  std::string_view local_time() const {
    return {time_.dates.local.data(), time_.dates.local.size()};
  }
  const LineTime& line_time() const { return time_; }
  void byte(char c) { *at_++ = c; }

 private:
  LineTime time_;
};

template <std::size_t N>
constexpr std::uint64_t word_at(const std::array<char, N>& text, std::size_t offset) {
  std::array<char, sizeof(std::uint64_t)> bytes{};
  std::copy_n(text.begin() + offset, bytes.size(), bytes.begin());
  return std::bit_cast<std::uint64_t>(bytes);
}

/// Writes values of JSON.
class JsonWriter : public LineWriter {
 public:
  using LineWriter::LineWriter;
  using LineWriter::milliseconds;
  using LineWriter::number;

  /// Writes the key as constants of the code, the last of which overlaps the one before.
  template <AccessLogField field>
  [[gnu::always_inline]] void key() {
    constexpr std::size_t size = json_key<field>.size();
    static_assert(size >= sizeof(std::uint64_t));
    const auto put_word = [this]<std::size_t offset>() __attribute__((always_inline)) {
      constexpr std::uint64_t word = word_at(json_key<field>, offset);
      std::memcpy(at_ + offset, &word, sizeof word);
    };
    const auto put_words =
        [&]<std::size_t... i>(std::index_sequence<i...>) __attribute__((always_inline)) {
          (put_word.template operator()<std::min(i * sizeof(std::uint64_t), size - 8)>(), ...);
        };
    put_words(std::make_index_sequence<(size + 7) / 8>());
    at_ += size;
  }
  void null() { text("null"); }
  template <class Integer>
  void number(const std::optional<Integer>& value) {
    at_ = value ? put_number(at_, *value) : put(at_, "null");
  }
  void milliseconds(const std::optional<Duration>& duration) {
    at_ = duration ? put_milliseconds(at_, *duration) : put(at_, "null");
  }
  void time() {
    text("\"");
    LineWriter::time();
    text("\"");
  }
  void time_local() { string(local_time(), local_time().size()); }
  /// Goes on where another writer has ended.
  void go_on_at(char* at) { at_ = at; }
  void attempts(const AccessLogEntry& entry) { at_ = put_attempts(*this, entry); }
  void request(const AccessLogEntry& entry) { at_ = put_request(*this, entry); }

 private:
  static char* put_attempts(JsonWriter line, const AccessLogEntry& entry);
  static char* put_request(JsonWriter line, const AccessLogEntry& entry);
};

char* JsonWriter::put_attempts(JsonWriter line, const AccessLogEntry& entry) {
  line.text("[");
  for (const AttemptRecord& attempt : entry.attempts) {
    const bool last = &attempt == &entry.attempts.back();
    line.text("{\"backend\":");
    line.string(attempt.backend, max_backend_bytes);
    line.text(",\"outcome\":");
    line.string(outcome_of(attempt, last, entry.reason), max_reason_bytes);
    if (attempt.status != 0) {
      line.text(",\"status\":");
      line.number(std::uint64_t{attempt.status});
    }
    line.text(",\"connect_ms\":");
    line.milliseconds(attempt.connect);
    line.text("}");
    if (!last) line.text(",");
  }
  line.text("]");
  return line.end();
}

char* JsonWriter::put_request(JsonWriter line, const AccessLogEntry& entry) {
  if (entry.method.empty()) {
    line.null();
    return line.end();
  }
  char* at = put(line.end(), "\"");
  at = put_escaped(at, entry.method, max_method_bytes);
  at = put(at, " ");
  at = put_escaped(at, entry.path, max_path_bytes);
  at = put(at, " ");
  at = put_escaped(at, entry.protocol, max_protocol_bytes);
  return put(at, "\"");
}

/// Writes values of logfmt: in quotes, and escaped as JSON, where they have a blank, '=' or more.
class LogfmtWriter : public LineWriter {
 public:
  using LineWriter::LineWriter;

  void string(std::string_view value, std::size_t capacity) {
    const auto needs_quotes = [](char c) { return special(c) || c == ' ' || c == '='; };
    if (std::ranges::any_of(value, needs_quotes)) {
      at_ = put_escaped_string(at_, value, capacity);
    } else {
      at_ = put_escaped(at_, value, capacity);
    }
  }
  void time_local() { string(local_time(), local_time().size()); }
  void request(const AccessLogEntry& entry) {
    if (entry.method.empty()) return;
    JsonWriter json(at_, line_time());
    json.request(entry);
    at_ = json.end();
  }
  void attempts(const AccessLogEntry& entry) {
    if (entry.attempts.empty()) return;
    byte('"');
    for (const AttemptRecord& attempt : entry.attempts) {
      const bool last = &attempt == &entry.attempts.back();
      at_ = put_escaped(at_, attempt.backend, max_backend_bytes);
      byte('/');
      at_ = put_escaped(at_, outcome_of(attempt, last, entry.reason), max_reason_bytes);
      byte(last ? '"' : ',');
    }
  }
};

/// Writes values of a template, escaped as nginx does. No text has the byte by which its field
/// ends. Numbers, times, and what separates the texts of `request` and `attempts`, are not escaped.
class TextWriter : public LineWriter {
 public:
  TextWriter(char* at, const LineTime& time, char delimiter)
      : LineWriter(at, time), delimiter_(delimiter) {}

  void string(std::string_view value, std::size_t capacity) {
    escaped(value, capacity, delimiter_);
  }
  void time_local() { plain(local_time()); }
  void request(const AccessLogEntry& entry) {
    if (entry.method.empty()) return;
    escaped(entry.method, max_method_bytes, ' ');
    byte(' ');
    escaped(entry.path, max_path_bytes, ' ');
    byte(' ');
    escaped(entry.protocol, max_protocol_bytes, ' ');
  }
  void attempts(const AccessLogEntry& entry) {
    for (const AttemptRecord& attempt : entry.attempts) {
      const bool last = &attempt == &entry.attempts.back();
      escaped(attempt.backend, max_backend_bytes, delimiter_);
      byte('/');
      escaped(outcome_of(attempt, last, entry.reason), max_reason_bytes, delimiter_);
      if (!last) byte(',');
    }
  }

 private:
  /// `other`: a byte that must not appear, beside the delimiter.
  void escaped(std::string_view value, std::size_t capacity, char other) {
    constexpr char digits[] = "0123456789ABCDEF";
    const char* const last = at_ + capacity;
    char* cut = at_;  // the last position from which "..." still fits
    for (const char c : value) {
      const bool escapes = special(c) || c == delimiter_ || c == other;
      const std::ptrdiff_t size = escapes ? 4 : 1;
      if (last - at_ < size) {
        at_ = put(cut, "...");
        return;
      }
      if (last - at_ >= 3) cut = at_;
      if (!escapes) {
        byte(c);
        continue;
      }
      const auto code = static_cast<unsigned char>(c);
      at_ = put(at_, "\\x");
      byte(digits[code >> 4]);
      byte(digits[code & 15]);
    }
  }

  char delimiter_;
};

template <AccessLogField field>
[[gnu::always_inline]] inline void write_present(JsonWriter& line, const AccessLogEntry& entry) {
  line.key<field>();
  write_value(field, entry, line);
}

template <AccessLogField... fields>
[[gnu::always_inline]] inline void write_all(JsonWriter& line, const AccessLogEntry& entry) {
  const auto write = [&]<AccessLogField field>() __attribute__((always_inline)) {
    if (!is_absent(field, entry)) write_present<field>(line, entry);
  };
  (write.template operator()<fields>(), ...);
}

/// Writes the fields of a request to a model. Returns the end, so that the caller's writer need not
/// be in memory.
[[gnu::noinline]] char* put_model_fields(JsonWriter line, const AccessLogEntry& entry) {
  using enum AccessLogField;
  write_all<model, task, stream, max_tokens, prompt_bytes, prompt_tokens, completion_tokens,
            cached_tokens, finish_reason, body_ms, ttft_ms, tpot_ms, max_gap_ms>(line, entry);
  return line.end();
}

/// Writes the usual fields. All that can be is settled when this is compiled: most requests get
/// such a line.
char* put_usual_json(JsonWriter line, const AccessLogEntry& entry) {
  using enum AccessLogField;
  write_all<time, request_id, trace_id, client, peer, listener, protocol, method, host, path, route,
            pool, backend, priority, tenant, status, grpc_status, reason, attempts, bytes_in,
            bytes_out, duration_ms, head_ms, wait_ms, connect_ms, retry_ms, overhead_ms, backend_ms,
            ttfb_ms>(line, entry);
  if (entry.inference != nullptr) [[unlikely]]
    line.go_on_at(put_model_fields(line, entry));
  write_all<cache>(line, entry);
  write_present<aborted>(line, entry);
  line.text("}\n");
  return line.end();
}

/// Writes keys and values; leaves out fields that are absent and, of logfmt, those without a value.
template <class Line>
char* write_keys(const AccessLogLayout& layout, const AccessLogEntry& entry, char* at,
                 const LineTime& time) {
  for (const AccessLogLayout::Part& part : layout.parts) {
    if (!part.field || is_absent(*part.field, entry)) continue;
    Line line(at, time);
    line.plain(part.text);
    const char* const value = line.end();
    write_value(*part.field, entry, line);
    if (line.end() != value) at = line.end();
  }
  return at;
}

char* write_template(const AccessLogLayout& layout, const AccessLogEntry& entry, char* at,
                     const LineTime& time) {
  for (const AccessLogLayout::Part& part : layout.parts) {
    TextWriter line(at, time, part.delimiter);
    line.plain(part.text);
    at = line.end();
    if (!part.field) continue;
    if (!is_absent(*part.field, entry)) write_value(*part.field, entry, line);
    if (line.end() == at) line.text("-");
    at = line.end();
  }
  return put(at, "\n");
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
    const std::chrono::sys_seconds begin{std::chrono::seconds(second)};
    *put_rfc3339(dates_.utc.data(), begin) = '.';
    put_local_time(dates_.local.data(), begin);
  }
  const LineTime time{dates_, static_cast<unsigned>(micros % 1'000'000)};
  char* const begin = buffer.data();
  char* end = nullptr;
  if (layout_.style == AccessLogLayout::Style::text) [[unlikely]] {
    end = write_template(layout_, entry, begin, time);
  } else if (layout_.style == AccessLogLayout::Style::logfmt) [[unlikely]] {
    end = put(write_keys<LogfmtWriter>(layout_, entry, begin, time), "\n");
    // Every key has a blank in front.
    if (end - begin > 1) return {begin + 1, static_cast<std::size_t>(end - begin - 1)};
  } else if (!layout_.parts.empty()) [[unlikely]] {
    end = write_keys<JsonWriter>(layout_, entry, begin, time);
    if (end == begin) ++end;
    end = put(end, "}\n");
    *begin = '{';  // in place of the first comma
  } else {
    end = put_usual_json(JsonWriter(begin, time), entry);
    *begin = '{';
  }
  return {begin, static_cast<std::size_t>(end - begin)};
}

}  // namespace evenkeel
