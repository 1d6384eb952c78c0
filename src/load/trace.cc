#include "evenkeel/load/trace.h"

#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <memory>
#include <numeric>
#include <optional>

namespace evenkeel {
namespace {

constexpr std::size_t max_text_bytes = std::size_t{1} << 30;

Error unreadable(std::string detail) {
  return Error{.fault = Fault::internal, .side = Side::proxy, .detail = std::move(detail)};
}

Duration from_milliseconds(double milliseconds) {
  return std::chrono::duration_cast<Duration>(
      std::chrono::duration<double, std::milli>(milliseconds));
}

template <class Number>
std::optional<Number> number(std::string_view text) {
  Number value{};
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// A timestamp in milliseconds: finite, not negative, less than 300 years.
std::optional<Duration> timestamp(std::string_view text) {
  const auto milliseconds = number<double>(text);
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

/// Reads one flat JSON object from left to right; each call returns nothing where the text differs
/// from what it expects.
class JsonCursor {
 public:
  explicit JsonCursor(std::string_view line) : rest_(line) {}

  bool take(char wanted) {
    skip_blanks();
    if (rest_.empty() || rest_.front() != wanted) return false;
    rest_.remove_prefix(1);
    return true;
  }
  std::optional<std::string_view> string() {
    if (!take('"')) return std::nullopt;
    std::size_t end = 0;
    while (end < rest_.size() && rest_[end] != '"') end += rest_[end] == '\\' ? 2u : 1u;
    if (end >= rest_.size()) return std::nullopt;
    const std::string_view found = rest_.substr(0, end);
    rest_.remove_prefix(end + 1);
    return found;
  }
  /// The text of a number, true, false or null.
  std::optional<std::string_view> bare() {
    skip_blanks();
    const std::size_t end = std::min(rest_.find_first_of(",]} \t"), rest_.size());
    if (end == 0) return std::nullopt;
    const std::string_view found = rest_.substr(0, end);
    rest_.remove_prefix(end);
    return found;
  }
  bool at(char wanted) {
    skip_blanks();
    return !rest_.empty() && rest_.front() == wanted;
  }
  bool at_end() {
    skip_blanks();
    return rest_.empty();
  }

 private:
  void skip_blanks() {
    rest_.remove_prefix(std::min(rest_.find_first_not_of(" \t"), rest_.size()));
  }
  std::string_view rest_;
};

std::optional<std::vector<std::uint64_t>> read_ids(JsonCursor& cursor) {
  std::vector<std::uint64_t> ids;
  if (!cursor.take('[')) return std::nullopt;
  if (cursor.take(']')) return ids;
  do {
    const auto text = cursor.bare();
    const auto id = text ? number<std::uint64_t>(*text) : std::nullopt;
    if (!id) return std::nullopt;
    ids.push_back(*id);
  } while (cursor.take(','));
  if (!cursor.take(']')) return std::nullopt;
  return ids;
}

/// A row; or nothing, and the problem in `why`.
std::optional<TraceRow> read_json_row(std::string_view line, std::string& why) {
  TraceRow row;
  bool has_stamp = false;
  bool has_input = false;
  bool has_output = false;
  JsonCursor cursor(line);
  why = "not a flat JSON object";
  const auto expected = [&why](std::string_view key, const char* what) {
    why = std::string(key) + ": expected " + what;
    return std::nullopt;
  };
  if (!cursor.take('{')) return std::nullopt;
  do {
    const auto key = cursor.string();
    if (!key || !cursor.take(':')) return std::nullopt;
    if (*key == "hash_ids") {
      auto ids = read_ids(cursor);
      if (!ids) return expected(*key, "a list of whole numbers");
      row.block_ids = std::move(*ids);
      continue;
    }
    const auto value = cursor.at('"') ? cursor.string() : cursor.bare();
    if (!value) return std::nullopt;
    if (*key == "timestamp") {
      const auto due = timestamp(*value);
      if (!due) return expected(*key, "milliseconds");
      row.due = *due;
      has_stamp = true;
    } else if (*key == "input_length" || *key == "output_length") {
      const auto tokens = number<std::uint32_t>(*value);
      if (!tokens) return expected(*key, "a whole number");
      const bool input = *key == "input_length";
      (input ? row.prompt_tokens : row.output_tokens) = *tokens;
      (input ? has_input : has_output) = true;
    }
  } while (cursor.take(','));
  if (!cursor.take('}') || !cursor.at_end()) return std::nullopt;
  if (!has_stamp || !has_input || !has_output) {
    why = "expected timestamp, input_length and output_length";
    return std::nullopt;
  }
  return row;
}

// ---- CSV --------------------------------------------------------------------------------------

std::vector<std::string_view> split(std::string_view line) {
  std::vector<std::string_view> cells;
  for (;;) {
    const std::size_t comma = line.find(',');
    cells.push_back(line.substr(0, comma));
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
    columns.stamp_ = find({"timestamp_ms"});
    columns.input_ = find({"context_tokens", "input_tokens", "prompt_tokens"});
    columns.output_ = find({"generated_tokens", "output_tokens"});
    columns.tenant_ = find({"client_id"});
    if (columns.stamp_ < columns.count_ && columns.input_ < columns.count_ &&
        columns.output_ < columns.count_) {
      return columns;
    }
    why =
        "expected a header with timestamp_ms, input_tokens (or context_tokens, prompt_tokens) and "
        "output_tokens (or generated_tokens)";
    return std::nullopt;
  }

  std::optional<TraceRow> row(std::string_view line, std::string& why) const {
    const auto cells = split(line);
    if (cells.size() != count_) {
      why =
          "expected " + std::to_string(count_) + " columns, found " + std::to_string(cells.size());
      return std::nullopt;
    }
    const auto due = timestamp(cells[stamp_]);
    const auto input = number<std::uint32_t>(cells[input_]);
    const auto output = number<std::uint32_t>(cells[output_]);
    if (!due || !input || !output) {
      why = "expected milliseconds and whole numbers of tokens";
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
  Lines lines(text);
  const auto wrong = [&] {
    return unreadable(name + ":" + std::to_string(lines.number()) + ": " + why);
  };

  const auto first = lines.next();
  if (!first) return unreadable(name + ": empty");
  if (first->front() == '{') {
    trace.quantised = true;
    for (auto line = first; line; line = lines.next()) {
      auto row = read_json_row(*line, why);
      if (!row) return wrong();
      trace.rows.push_back(std::move(*row));
    }
  } else {
    const auto columns = CsvColumns::of(*first, why);
    if (!columns) return wrong();
    while (const auto line = lines.next()) {
      auto row = columns->row(*line, why);
      if (!row) return wrong();
      trace.rows.push_back(std::move(*row));
    }
  }
  if (trace.rows.empty()) return unreadable(name + ": no requests");

  sort_by_time(trace.rows);
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
