#include "evenkeel/stats/access_log_formatter.h"

#include <algorithm>
#include <charconv>
#include <cstring>

namespace evenkeel {
namespace {

// Maximum bytes of each value between its quotes. AccessLogBuffer must hold their sum.
constexpr std::size_t max_request_id_bytes = 128;
constexpr std::size_t max_client_bytes = 64;
constexpr std::size_t max_listener_bytes = 96;
constexpr std::size_t max_protocol_bytes = 16;
constexpr std::size_t max_method_bytes = 32;
constexpr std::size_t max_host_bytes = 255;
constexpr std::size_t max_path_bytes = 2048;
constexpr std::size_t max_route_bytes = 255;
constexpr std::size_t max_pool_bytes = 128;
constexpr std::size_t max_backend_bytes = 255;
constexpr std::size_t max_reason_bytes = 48;
constexpr std::size_t max_attempt_bytes =
    max_backend_bytes + max_reason_bytes + 80;  // with its keys and number
constexpr std::size_t max_keys_and_numbers_bytes = 800;
static_assert(max_request_id_bytes + 2 * max_client_bytes + max_listener_bytes +
                  max_protocol_bytes + max_method_bytes + max_host_bytes + max_path_bytes +
                  max_route_bytes + max_pool_bytes + max_backend_bytes + max_reason_bytes +
                  AttemptList::capacity * max_attempt_bytes + max_keys_and_numbers_bytes <=
              std::tuple_size_v<AccessLogBuffer>);

/// Whether a byte cannot simply be copied: a control, '"' or '\\', which a JSON string must escape,
/// DEL, or a byte of a UTF-8 sequence.
constexpr bool special(char byte) {
  const auto code = static_cast<unsigned char>(byte);
  return code < 0x20 || code >= 0x7f || byte == '"' || byte == '\\';
}

/// Sixteen bytes in a register: a vector extension of g++ and clang that works on every processor.
using ByteVector [[gnu::vector_size(16)]] = signed char;
using WordVector [[gnu::vector_size(16)]] = std::uint64_t;

/// Whether one of the sixteen is special. As signed numbers, bytes above 0x7f are below 0x20 too.
bool special(ByteVector bytes) {
  const auto found = (bytes < 0x20) | (bytes == 0x7f) | (bytes == '"') | (bytes == '\\');
  const auto halves = reinterpret_cast<WordVector>(found);
  return (halves[0] | halves[1]) != 0;
}

bool special(std::uint64_t one, std::uint64_t other) {
  return special(reinterpret_cast<ByteVector>(WordVector{one, other}));
}

template <class Word>
Word copy_word(char* to, const char* from) {
  Word word;
  std::memcpy(&word, from, sizeof word);
  std::memcpy(to, &word, sizeof word);
  return word;
}

/// Copies in words, of which the last two may overlap. False if a byte is special: then `to` holds
/// only a part.
inline bool copy_plain(char* to, const char* from, std::size_t size) {
  if (size >= 16) {
    for (std::size_t i = 0; i + 16 < size; i += 16) {
      if (special(copy_word<ByteVector>(to + i, from + i))) return false;
    }
    return !special(copy_word<ByteVector>(to + size - 16, from + size - 16));
  }
  if (size >= 8) {
    const auto front = copy_word<std::uint64_t>(to, from);
    const auto back = copy_word<std::uint64_t>(to + size - 8, from + size - 8);
    return !special(front, back);
  }
  if (size >= 4) {
    const std::uint64_t front = copy_word<std::uint32_t>(to, from);
    const std::uint64_t back = copy_word<std::uint32_t>(to + size - 4, from + size - 4);
    return !special(front << 32 | back, front << 32 | back);
  }
  for (std::size_t i = 0; i < size; ++i) {
    if (special(from[i])) return false;
    to[i] = from[i];
  }
  return true;
}

/// Length of the well-formed UTF-8 sequence of two to four bytes at the beginning (Unicode 15,
/// table 3-7); 0 if there is none, or if it is a C1 control, which terminals interpret.
std::size_t utf8_sequence(std::string_view bytes) {
  const auto at = [&](std::size_t i) { return static_cast<unsigned char>(bytes[i]); };
  const auto continues = [&](std::size_t i, unsigned low = 0x80, unsigned high = 0xbf) {
    return i < bytes.size() && at(i) >= low && at(i) <= high;
  };
  const unsigned lead = at(0);
  if (lead == 0xc2) return continues(1, 0xa0) ? 2 : 0;
  if (lead > 0xc2 && lead <= 0xdf) return continues(1) ? 2 : 0;
  if (lead >= 0xe0 && lead <= 0xef) {
    const unsigned low = lead == 0xe0 ? 0xa0 : 0x80;
    const unsigned high = lead == 0xed ? 0x9f : 0xbf;
    return continues(1, low, high) && continues(2) ? 3 : 0;
  }
  if (lead >= 0xf0 && lead <= 0xf4) {
    const unsigned low = lead == 0xf0 ? 0x90 : 0x80;
    const unsigned high = lead == 0xf4 ? 0x8f : 0xbf;
    return continues(1, low, high) && continues(2) && continues(3) ? 4 : 0;
  }
  return 0;
}

/// One unit of an escaped string: its output, and the number of input bytes.
struct Unit {
  std::array<char, 6> bytes;
  std::size_t size;
  std::size_t taken;
};

Unit escape(std::string_view rest) {
  const char byte = rest[0];
  if (!special(byte)) return {{byte}, 1, 1};
  if (byte == '"' || byte == '\\') return {{'\\', byte}, 2, 1};
  if (const std::size_t size = utf8_sequence(rest)) {
    Unit unit{{}, size, size};
    std::memcpy(unit.bytes.data(), rest.data(), size);
    return unit;
  }
  constexpr char digits[] = "0123456789abcdef";
  const auto code = static_cast<unsigned char>(byte);
  return {{'\\', 'u', '0', '0', digits[code >> 4], digits[code & 15]}, 6, 1};
}

template <std::size_t N>
char* put(char* at, const char (&literal)[N]) {
  std::memcpy(at, literal, N - 1);
  return at + N - 1;
}

/// Writes an escaped value of at most `capacity` bytes. Returns the end, as all `put` functions do.
char* put_escaped(char* at, std::string_view value, std::size_t capacity) {
  const char* const last = at + capacity;
  char* cut = at;  // the last position from which "..." still fits
  while (!value.empty()) {
    const Unit unit = escape(value);
    if (unit.size > static_cast<std::size_t>(last - at)) return put(cut, "...");
    if (last - at >= 3) cut = at;
    std::memcpy(at, unit.bytes.data(), unit.size);
    at += unit.size;
    value.remove_prefix(unit.taken);
  }
  return at;
}

/// As `put_string`, of what is too long or has a special byte. Not part of it, whose frequent path
/// then saves no registers.
[[gnu::noinline]] char* put_awkward_string(char* at, std::string_view value, std::size_t capacity) {
  *at++ = '"';
  if (value.size() > capacity && copy_plain(at, value.data(), capacity - 3)) {
    at = put(at + capacity - 3, "...");
  } else {
    at = put_escaped(at, value, capacity);
  }
  *at = '"';
  return at + 1;
}

/// A quoted string of at most `capacity` bytes between its quotes; null when empty.
char* put_string(char* at, std::string_view value, std::size_t capacity) {
  if (value.empty()) return put(at, "null");
  if (value.size() > capacity || !copy_plain(at + 1, value.data(), value.size())) [[unlikely]] {
    return put_awkward_string(at, value, capacity);
  }
  *at = '"';
  at[value.size() + 1] = '"';
  return at + value.size() + 2;
}

/// "00" to "99", one after the other.
constexpr auto digit_pairs = [] {
  std::array<char, 200> text{};
  for (std::size_t i = 0; i < 100; ++i) {
    text[2 * i] = static_cast<char>('0' + i / 10);
    text[2 * i + 1] = static_cast<char>('0' + i % 10);
  }
  return text;
}();

/// Two digits. REQUIRES: value < 100.
inline char* put_pair(char* at, unsigned value) {
  std::memcpy(at, &digit_pairs[2 * static_cast<std::size_t>(value)], 2);
  return at + 2;
}

/// Three digits. REQUIRES: value < 1000.
inline char* put_triple(char* at, unsigned value) {
  *at = static_cast<char>('0' + value / 100);
  return put_pair(at + 1, value % 100);
}

inline char* put_number(char* at, std::uint64_t value) {
  const auto small = static_cast<unsigned>(value);
  if (value < 10) {
    *at = static_cast<char>('0' + small);
    return at + 1;
  }
  if (value < 100) return put_pair(at, small);
  if (value < 1000) return put_triple(at, small);
  return std::to_chars(at, at + 20, value).ptr;
}

inline char* put_milliseconds(char* at, Duration duration) {
  using Micros = std::chrono::duration<std::uint64_t, std::micro>;
  if (duration < std::chrono::microseconds(1)) return put(at, "0.000");
  const std::uint64_t micros = std::chrono::duration_cast<Micros>(duration).count();
  at = put_number(at, micros / 1000);
  *at = '.';
  return put_triple(at + 1, static_cast<unsigned>(micros % 1000));
}

/// Appends to a line. REQUIRES: the values fit, see the capacities above.
class Writer {
 public:
  explicit Writer(char* at) : at_(at) {}

  char* end() const { return at_; }

  template <std::size_t N>
  void text(const char (&literal)[N]) {
    at_ = put(at_, literal);
  }
  void string(std::string_view value, std::size_t capacity) {
    at_ = put_string(at_, value, capacity);
  }
  void date(const std::array<char, 20>& date) {
    std::memcpy(at_, date.data(), date.size());
    at_ += date.size();
  }
  void number(std::uint64_t value) { at_ = put_number(at_, value); }
  /// Two digits. REQUIRES: value < 100.
  void pair(unsigned value) { at_ = put_pair(at_, value); }
  void milliseconds(Duration duration) { at_ = put_milliseconds(at_, duration); }
  void milliseconds(const std::optional<Duration>& duration) {
    at_ = duration ? put_milliseconds(at_, *duration) : put(at_, "null");
  }

 private:
  char* at_;
};

/// How an attempt ended: by its own fault, by the fault that ended the request, or answered.
std::string_view outcome_of(const Attempt& attempt, bool last, std::string_view reason) {
  if (attempt.fault) return to_string(*attempt.fault);
  return last && !reason.empty() ? reason : "answered";
}

/// Writes what was requested, by which client, and which backend got it.
void write_target(Writer& line, const AccessLogEntry& entry) {
  line.text(",\"request_id\":");
  line.string(entry.request_id, max_request_id_bytes);
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
}

void write_attempts(Writer& line, const AccessLogEntry& entry) {
  line.text(",\"attempts\":[");
  for (const Attempt& attempt : entry.attempts) {
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

void write_times(Writer& line, const AccessLogEntry& entry) {
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

std::array<char, 20> date_of(std::chrono::sys_seconds time) {
  const auto day = std::chrono::floor<std::chrono::days>(time);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss clock(time - day);
  std::array<char, 20> text;
  Writer writer(text.data());
  const auto year = static_cast<unsigned>(static_cast<int>(date.year()));
  writer.pair(year / 100 % 100);
  writer.pair(year % 100);
  writer.text("-");
  writer.pair(static_cast<unsigned>(date.month()));
  writer.text("-");
  writer.pair(static_cast<unsigned>(date.day()));
  writer.text("T");
  writer.pair(static_cast<unsigned>(clock.hours().count()));
  writer.text(":");
  writer.pair(static_cast<unsigned>(clock.minutes().count()));
  writer.text(":");
  writer.pair(static_cast<unsigned>(clock.seconds().count()));
  writer.text(".");
  return text;
}

}  // namespace

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
    date_ = date_of(std::chrono::sys_seconds(std::chrono::seconds(second)));
  }

  Writer line(buffer.data());
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
  if (entry.aborted) {
    line.text(",\"aborted\":true}\n");
  } else {
    line.text(",\"aborted\":false}\n");
  }
  return {buffer.data(), static_cast<std::size_t>(line.end() - buffer.data())};
}

}  // namespace evenkeel
