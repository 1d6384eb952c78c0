#include "evenkeel/load/trace.h"

#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <numeric>
#include <optional>

#include "evenkeel/base/ascii.h"
#include "evenkeel/base/decimal.h"
#include "evenkeel/base/rfc3339.h"
#include "evenkeel/json/value.h"

namespace evenkeel {
namespace {

constexpr std::size_t max_text_bytes = std::size_t{1} << 30;
/// What is later is a date, not a time since the beginning of a trace.
constexpr Duration first_date = std::chrono::hours(24 * 365);

Error unreadable(std::string detail) {
  return Error{.fault = Fault::internal, .side = Side::proxy, .detail = std::move(detail)};
}

Duration from_milliseconds(double milliseconds) {
  return std::chrono::duration_cast<Duration>(
      std::chrono::duration<double, std::milli>(milliseconds));
}

/// A timestamp in milliseconds: finite, not negative, less than 300 years.
std::optional<Duration> timestamp(std::string_view text) {
  const auto milliseconds = parse_number<double>(text);
  if (!milliseconds || !(*milliseconds >= 0) || *milliseconds > 9e15 / 1e3) return std::nullopt;
  return from_milliseconds(*milliseconds);
}

/// Iterates over the lines of a text.
class Lines {
 public:
  explicit Lines(std::string_view text) : rest_(text) {}
  /// The next line that is not blank.
  std::optional<std::string_view> next() {
    while (!rest_.empty()) {
      const std::size_t end = rest_.find('\n');
      std::string_view line = rest_.substr(0, end);
      rest_.remove_prefix(end == std::string_view::npos ? rest_.size() : end + 1);
      ++number_;
      if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
      if (line.find_first_not_of(" \t") != std::string_view::npos) return line;
    }
    return std::nullopt;
  }
  std::size_t number() const { return number_; }

 private:
  std::string_view rest_;
  std::size_t number_ = 0;
};

// ---- JSON lines -------------------------------------------------------------------------------

/// A line of JSON, as far as it is understood.
struct JsonLine {
  TraceRow row;
  std::optional<Duration> stamp;  ///< Mooncake's
  std::optional<Duration> date;   ///< of our access log
  std::optional<std::uint32_t> input;
  std::optional<std::uint32_t> output;
};

/// The text of a number or a string; empty: it is something else.
const std::string& plain_text(const JsonValue& value) {
  return value.is_text() ? value.text() : value.number_text();
}

/// Reads a line; nothing: it is malformed, and the problem is in `why`.
std::optional<JsonLine> read_json_line(std::string_view text, std::string& why) {
  const auto object = parse_json(text);
  why = "not a JSON object";
  if (!object || !object->is_object()) return std::nullopt;
  JsonLine line;
  for (const auto& [key, value] : object->members()) {
    const auto expected = [&, name = std::string_view(key)](const char* what) {
      why = std::string(name) + ": expected " + what;
      return std::nullopt;
    };
    const std::string& plain = plain_text(value);
    const bool is_input = key == "input_length" || key == "prompt_tokens";
    const bool is_output = key == "output_length" || key == "completion_tokens";
    if (key == "hash_ids") {
      if (!value.is_array()) return expected("a list of whole numbers");
      for (const JsonValue& each : value.items()) {
        const auto id = parse_number<std::uint64_t>(each.number_text());
        if (!id) return expected("a list of whole numbers");
        line.row.block_ids.push_back(*id);
      }
    } else if (key == "timestamp") {
      if (!(line.stamp = timestamp(plain))) return expected("milliseconds");
    } else if (key == "time") {
      if (!(line.date = parse_rfc3339(plain))) return expected("a date");
    } else if (key == "tenant") {
      line.row.tenant = plain;
    } else if ((is_input || is_output) && !value.is_null()) {
      const auto tokens = parse_number<std::uint32_t>(plain);
      if (!tokens) return expected("a whole number");
      (is_input ? line.input : line.output) = tokens;
    }
  }
  if (!line.date && (!line.stamp || !line.input || !line.output)) {
    why = "expected timestamp, input_length and output_length, or the fields of an access log";
    return std::nullopt;
  }
  return line;
}

/// Adds the rows from `first` on. Of an access log these are the requests whose tokens the engine
/// has counted. False: a line is malformed, and the problem is in `why`.
bool read_json_lines(std::string_view first, Lines& lines, Trace& trace, std::string& why) {
  for (auto text = std::optional(first); text; text = lines.next()) {
    auto line = read_json_line(*text, why);
    if (!line) return false;
    if (trace.rows.empty()) trace.quantised = !line->date;
    if (!line->input || !line->output) {
      ++trace.left_out;
      continue;
    }
    line->row.due = line->date ? *line->date : *line->stamp;
    line->row.prompt_tokens = *line->input;
    line->row.output_tokens = *line->output;
    trace.rows.push_back(std::move(line->row));
  }
  return true;
}

// ---- CSV --------------------------------------------------------------------------------------

std::vector<std::string_view> split(std::string_view line) {
  std::vector<std::string_view> cells;
  for (;;) {
    const std::size_t comma = line.find(',');
    cells.push_back(trimmed(line.substr(0, comma), " \t\""));
    if (comma == std::string_view::npos) return cells;
    line.remove_prefix(comma + 1);
  }
}

/// The positions of the columns of a CSV trace.
class CsvColumns {
 public:
  /// Nothing where a column is missing, and the problem in `why`.
  static std::optional<CsvColumns> of(std::string_view header, std::string& why) {
    const auto names = split(header);
    const auto find = [&](std::initializer_list<std::string_view> wanted) {
      const auto found =
          std::find_first_of(names.begin(), names.end(), wanted.begin(), wanted.end());
      return static_cast<std::size_t>(found - names.begin());
    };
    CsvColumns columns;
    columns.count_ = names.size();
    columns.stamp_ = find({"timestamp_ms", "TIMESTAMP"});
    columns.has_dates_ = columns.stamp_ < columns.count_ && names[columns.stamp_] == "TIMESTAMP";
    columns.input_ = find({"context_tokens", "input_tokens", "prompt_tokens", "ContextTokens"});
    columns.output_ = find({"generated_tokens", "output_tokens", "GeneratedTokens"});
    columns.tenant_ = find({"client_id"});
    if (columns.stamp_ < columns.count_ && columns.input_ < columns.count_ &&
        columns.output_ < columns.count_) {
      return columns;
    }
    why =
        "expected a header with timestamp_ms, input_tokens (or context_tokens, prompt_tokens) and "
        "output_tokens (or generated_tokens), Azure's TIMESTAMP,ContextTokens,GeneratedTokens, or "
        "lines of JSON: Mooncake's, or evenkeel's access log";
    return std::nullopt;
  }

  std::optional<TraceRow> row(std::string_view line, std::string& why) const {
    const auto cells = split(line);
    if (cells.size() != count_) {
      why =
          "expected " + std::to_string(count_) + " columns, found " + std::to_string(cells.size());
      return std::nullopt;
    }
    const auto due = has_dates_ ? parse_rfc3339(cells[stamp_]) : timestamp(cells[stamp_]);
    const auto input = parse_number<std::uint32_t>(cells[input_]);
    const auto output = parse_number<std::uint32_t>(cells[output_]);
    if (!due || !input || !output) {
      why = has_dates_
                ? "expected a date such as 2023-11-16 18:15:46.68 and whole numbers of tokens"
                : "expected milliseconds and whole numbers of tokens";
      return std::nullopt;
    }
    return TraceRow{.due = *due,
                    .prompt_tokens = *input,
                    .output_tokens = *output,
                    .tenant = tenant_ < count_ ? std::string(cells[tenant_]) : std::string()};
  }

 private:
  std::size_t count_ = 0;
  std::size_t stamp_ = 0;
  bool has_dates_ = false;
  std::size_t input_ = 0;
  std::size_t output_ = 0;
  std::size_t tenant_ = 0;
};

/// Keeps the order of rows with equal times. Not std::stable_sort: clang rejects the deprecated
/// temporary buffer in libstdc++'s.
void sort_by_time(std::vector<TraceRow>& rows) {
  std::vector<std::size_t> order(rows.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&rows](std::size_t a, std::size_t b) {
    return rows[a].due != rows[b].due ? rows[a].due < rows[b].due : a < b;
  });
  std::vector<TraceRow> sorted;
  sorted.reserve(rows.size());
  for (const std::size_t index : order) sorted.push_back(std::move(rows[index]));
  rows = std::move(sorted);
}

}  // namespace

Result<Trace> parse_trace(std::string_view text, const std::string& name) {
  Trace trace;
  std::string why;
  constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";
  if (text.starts_with(byte_order_mark)) text.remove_prefix(byte_order_mark.size());
  Lines lines(text);
  const auto wrong = [&] {
    return unreadable(name + ":" + std::to_string(lines.number()) + ": " + why);
  };

  const auto first = lines.next();
  if (!first) return unreadable(name + ": empty");
  if (first->front() == '{') {
    if (!read_json_lines(*first, lines, trace, why)) return wrong();
  } else {
    const auto columns = CsvColumns::of(*first, why);
    if (!columns) return wrong();
    while (const auto line = lines.next()) {
      auto row = columns->row(*line, why);
      if (!row) return wrong();
      trace.rows.push_back(std::move(*row));
    }
  }
  if (trace.rows.empty() && trace.left_out > 0) {
    return unreadable(name +
                      ": no line has prompt_tokens and completion_tokens, which pools with "
                      "`inspect` have from engines that count them");
  }
  if (trace.rows.empty()) return unreadable(name + ": no requests");

  sort_by_time(trace.rows);
  const Duration start = trace.rows.front().due;
  if (start >= first_date) {  // dates: the trace begins with its first request
    for (TraceRow& row : trace.rows) row.due -= start;
  }
  return trace;
}

Result<Trace> read_trace(const std::string& path) {
  errno = 0;
  const std::unique_ptr<gzFile_s, int (*)(gzFile)> file(gzopen(path.c_str(), "rb"), &gzclose);
  if (!file) return unreadable(path + ": " + std::strerror(errno != 0 ? errno : ENOMEM));
  gzbuffer(file.get(), 128 * 1024);

  std::string text;
  constexpr unsigned step = 1024 * 1024;
  for (;;) {
    const std::size_t filled = text.size();
    text.resize(filled + step);
    const int got = gzread(file.get(), text.data() + filled, step);
    if (got < 0) {
      int code = 0;
      const char* what = gzerror(file.get(), &code);
      return unreadable(path + ": " + (code == Z_ERRNO ? std::strerror(errno) : what));
    }
    text.resize(filled + static_cast<std::size_t>(got));
    if (static_cast<unsigned>(got) < step) break;
    if (text.size() > max_text_bytes) return unreadable(path + ": more than 1 GiB");
  }
  int code = Z_OK;
  gzerror(file.get(), &code);
  if (code == Z_BUF_ERROR) return unreadable(path + ": truncated");
  return parse_trace(text, path);
}

void spread_bursts(std::vector<TraceRow>& rows) {
  Duration gap{};
  for (std::size_t begin = 0; begin < rows.size();) {
    std::size_t end = begin;
    while (end < rows.size() && rows[end].due == rows[begin].due) ++end;
    const Duration from = rows[begin].due;
    if (end < rows.size()) gap = rows[end].due - from;
    const auto count = static_cast<Duration::rep>(end - begin);
    for (std::size_t i = begin; i < end; ++i) {
      rows[i].due = from + gap * static_cast<Duration::rep>(i - begin) / count;
    }
    begin = end;
  }
}

}  // namespace evenkeel
