#include "evenkeel/stats/usage_record.h"

#include "evenkeel/base/rfc3339.h"
#include "evenkeel/json/scanner.h"
#include "evenkeel/json/value.h"
#include "log_text.h"

namespace evenkeel {
namespace {

using namespace log_text;

// Maximum bytes of values between their quotes.
constexpr std::size_t max_short_bytes = 128;  // names of tenants and pools, ids
constexpr std::size_t max_long_bytes = 300;   // models, routes, backends, the source
constexpr std::size_t max_frame_bytes = 800;  // keys, numbers, times
static_assert(max_frame_bytes + 7 * max_short_bytes + 5 * max_long_bytes <=
              std::tuple_size_v<UsageBuffer>);

class RecordWriter : public Writer {
 public:
  using Writer::Writer;

  /// `key`: what stands in front of the value. An empty value is left out.
  template <std::size_t N>
  void member(const char (&key)[N], std::string_view value, std::size_t capacity) {
    if (value.empty()) return;
    text(key);
    string(value, capacity);
  }
  template <std::size_t N>
  void member(const char (&key)[N], std::uint64_t value) {
    text(key);
    number(value);
  }
  template <std::size_t N>
  void member(const char (&key)[N], bool value) {
    text(key);
    plain(value ? "true" : "false");
  }
  void amount(const Amount& amount) { at_ = amount.put(at_); }
  void seconds(Duration duration) {
    using Milliseconds = std::chrono::duration<std::uint64_t, std::milli>;
    const std::uint64_t all =
        duration.count() <= 0 ? 0 : std::chrono::duration_cast<Milliseconds>(duration).count();
    at_ = put_number(at_, all / 1000);
    *at_ = '.';
    at_ = put_triple(at_ + 1, static_cast<unsigned>(all % 1000));
  }
  void time(std::chrono::system_clock::time_point time) {
    const auto all = std::chrono::floor<std::chrono::milliseconds>(time);
    const auto whole = std::chrono::floor<std::chrono::seconds>(all);
    at_ = put_rfc3339(at_, whole);
    *at_ = '.';
    at_ = put_triple(at_ + 1, static_cast<unsigned>((all - whole).count()));
  }
};

}  // namespace

std::string_view format_usage(const UsageRecord& record, UsageBuffer& buffer) {
  RecordWriter line(buffer.data());
  line.text("{\"specversion\":\"1.0\"");
  line.member(",\"id\":", record.id, max_short_bytes);
  line.member(",\"source\":", record.source, max_long_bytes);
  line.text(",\"type\":\"evenkeel.request\",\"time\":\"");
  line.time(record.time);
  line.text("Z\"");
  line.member(",\"subject\":", record.tenant, max_short_bytes);
  line.text(",\"datacontenttype\":\"application/json\",\"data\":{\"request_id\":");
  line.string(record.request_id, max_short_bytes);
  line.member(",\"tenant\":", record.tenant, max_short_bytes);
  line.member(",\"key\":", record.key, max_short_bytes);
  line.member(",\"model\":", record.model, max_long_bytes);
  line.member(",\"served_model\":", record.served_model, max_long_bytes);
  line.member(",\"pool\":", record.pool, max_short_bytes);
  line.member(",\"route\":", record.route, max_long_bytes);
  line.member(",\"backend\":", record.backend, max_long_bytes);
  line.member(",\"status\":", static_cast<std::uint64_t>(record.status));
  line.member(",\"input_tokens\":", record.input_tokens);
  line.member(",\"output_tokens\":", record.output_tokens);
  if (record.cached_tokens) line.member(",\"cached_tokens\":", *record.cached_tokens);
  line.member(",\"estimated\":", record.estimated);
  line.member(",\"aborted\":", record.aborted);
  line.member(",\"retries\":", record.retries);
  line.member(",\"cache\":", record.cache, max_short_bytes);
  if (record.cost) {
    line.text(",\"cost\":");
    line.amount(*record.cost);
  }
  line.text(",\"duration_seconds\":");
  line.seconds(record.duration);
  line.text("}}\n");
  return {buffer.data(), line.end()};
}

namespace {

constexpr std::string_view record_begin = "{\"specversion\"";
constexpr std::string_view record_type = "evenkeel.request";

/// The member that a text is to go to; null: it does not matter.
std::string_view* text_member(UsageRecord& record, bool in_data, std::string_view key) {
  if (!in_data) {
    if (key == "id") return &record.id;
    if (key == "source") return &record.source;
    if (key == "subject") return &record.tenant;
    return nullptr;
  }
  if (key == "request_id") return &record.request_id;
  if (key == "tenant") return &record.tenant;
  if (key == "key") return &record.key;
  if (key == "model") return &record.model;
  if (key == "served_model") return &record.served_model;
  if (key == "pool") return &record.pool;
  if (key == "route") return &record.route;
  if (key == "backend") return &record.backend;
  return nullptr;
}

void set_number(UsageRecord& record, std::string_view key, std::uint64_t number) {
  if (key == "input_tokens") record.input_tokens = number;
  if (key == "output_tokens") record.output_tokens = number;
  if (key == "cached_tokens") record.cached_tokens = number;
  if (key == "status") record.status = static_cast<int>(number);
  if (key == "retries") record.retries = number;
  if (key == "cost") record.cost = Amount::of_units(number);
}

}  // namespace

UsageReader::Line UsageReader::read(std::string_view line) {
  if (read_record(line)) return Line::whole;
  // Quotes are escaped in texts: this begins a record wherever it stands.
  const std::size_t begin = line.rfind(record_begin);
  const bool is_glued = begin != line.npos && begin > 0 && read_record(line.substr(begin));
  return is_glued ? Line::glued : Line::useless;
}

bool UsageReader::read_record(std::string_view json) {
  using json::Token;
  record_ = {};
  text_ = json;
  unescaped_.clear();
  json::Scanner scanner;
  std::string_view key;
  bool in_data = false;
  bool has_time = false;
  bool has_type = false;
  bool ended = false;
  while (!ended) {
    const Token token = scanner.next(json);
    const bool shown = scanner.depth() == 1 || (scanner.depth() == 2 && in_data);
    switch (token) {
      case Token::more: ended = true; break;
      case Token::malformed: return false;
      case Token::key: key = scanner.text(); break;
      case Token::object_begin: in_data |= scanner.depth() == 2 && key == "data"; break;
      case Token::object_end: in_data &= scanner.depth() > 1; break;
      case Token::text: {
        if (!shown) break;
        const std::string_view text = text_of(scanner.text(), scanner.escaped());
        if (auto* const member = text_member(record_, in_data, key)) *member = text;
        if (!in_data && key == "type") has_type = text == record_type;
        if (!in_data && key == "time") {
          const auto time = parse_rfc3339(text);
          has_time = time.has_value();
          record_.time = std::chrono::system_clock::time_point(time.value_or(Duration()));
        }
        break;
      }
      case Token::number:
        if (!shown || !in_data) break;
        if (scanner.number().integer && !scanner.number().negative) {
          set_number(record_, key, scanner.number().magnitude);
        } else if (key == "cost") {
          record_.cost = Amount::parse(scanner.text());
        }
        break;
      case Token::literal_true:
        if (in_data && key == "estimated") record_.estimated = true;
        if (in_data && key == "aborted") record_.aborted = true;
        break;
      default: break;
    }
  }
  return scanner.finish() && has_type && has_time && !record_.id.empty();
}

std::string_view UsageReader::text_of(std::string_view json, bool escaped) {
  if (!escaped) return json;
  const auto value = parse_json("\"" + std::string(json) + "\"");
  return unescaped_.emplace_back(value ? value->text() : std::string(json));
}

}  // namespace evenkeel
