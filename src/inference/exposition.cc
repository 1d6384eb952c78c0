#include "evenkeel/inference/exposition.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "evenkeel/base/ascii.h"
#include "evenkeel/base/decimal.h"
#include "evenkeel/http/fields.h"

namespace evenkeel {
namespace {

constexpr std::size_t window_bytes = sizeof(std::uint64_t);

bool is_blank(char c) { return c == ' ' || c == '\t'; }

std::string_view without_blanks(std::string_view text) {
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  return text;
}

/// The size of `text` up to the first blank.
std::size_t token_size(std::string_view text) {
  std::size_t size = 0;
  while (size < text.size() && !is_blank(text[size])) ++size;
  return size;
}

/// The size of a quoted string. `text` begins after the opening quote. Nothing: it is never closed.
std::optional<std::size_t> quoted_size(std::string_view text) {
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '"') return at;
    if (text[at] == '\\') ++at;
  }
  return std::nullopt;
}

/// Position of the closing brace of a label set. `text` begins after the opening one.
std::optional<std::size_t> labels_size(std::string_view text) {
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '}') return at;
    if (text[at] != '"') continue;
    const auto quoted = quoted_size(text.substr(at + 1));
    if (!quoted) return std::nullopt;
    at += *quoted + 1;
  }
  return std::nullopt;
}

/// A number as Go writes it, and as most others do: 1, 2.5e-3, +Inf, NaN.
std::optional<double> parse_value(std::string_view text) {
  if (!text.empty() && text.front() == '+') text.remove_prefix(1);
  const bool negative = !text.empty() && text.front() == '-';
  const std::string_view digits = text.substr(negative ? 1 : 0);
  if (digits.empty()) return std::nullopt;
  if (digits.front() != '.' && !is_digit(digits.front())) {
    if (equals_ignore_case(digits, "nan")) return std::numeric_limits<double>::quiet_NaN();
    if (!equals_ignore_case(digits, "inf") && !equals_ignore_case(digits, "infinity")) {
      return std::nullopt;
    }
    const double infinity = std::numeric_limits<double>::infinity();
    return negative ? -infinity : infinity;
  }
  return parse_number<double>(text);
}

/// The unescaped value of a label; `text` itself if nothing in it is escaped.
std::string_view unescape(std::string_view text, std::string& scratch) {
  if (text.find('\\') == std::string_view::npos) return text;
  scratch.clear();
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] != '\\' || at + 1 == text.size()) {
      scratch += text[at];
      continue;
    }
    ++at;
    if (text[at] != 'n' && text[at] != '\\' && text[at] != '"') scratch += '\\';
    scratch += text[at] == 'n' ? '\n' : text[at];
  }
  return scratch;
}

}  // namespace

std::optional<Sample> parse_sample(std::string_view line) {
  line = without_blanks(line);
  if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
  if (line.empty() || line.front() == '#') return std::nullopt;

  Sample sample;
  sample.name = line.substr(0, std::min(line.find('{'), token_size(line)));
  if (sample.name.empty()) return std::nullopt;
  line = without_blanks(line.substr(sample.name.size()));
  if (!line.empty() && line.front() == '{') {
    line.remove_prefix(1);
    const auto size = labels_size(line);
    if (!size) return std::nullopt;
    sample.labels = line.substr(0, *size);
    line = without_blanks(line.substr(*size + 1));
  }
  const auto value = parse_value(line.substr(0, token_size(line)));
  if (!value) return std::nullopt;
  sample.value = *value;
  return sample;
}

std::optional<std::string_view> find_label(std::string_view labels, std::string_view name,
                                           std::string& scratch) {
  while (true) {
    while (!labels.empty() && (is_blank(labels.front()) || labels.front() == ',')) {
      labels.remove_prefix(1);
    }
    const std::size_t equals = labels.find('=');
    if (equals == std::string_view::npos) return std::nullopt;
    std::string_view label = labels.substr(0, equals);
    while (!label.empty() && is_blank(label.back())) label.remove_suffix(1);
    labels = without_blanks(labels.substr(equals + 1));
    if (labels.empty() || labels.front() != '"') return std::nullopt;
    labels.remove_prefix(1);
    const auto size = quoted_size(labels);
    if (!size) return std::nullopt;
    if (label == name) return unescape(labels.substr(0, *size), scratch);
    labels.remove_prefix(*size + 1);
  }
}

// ---- MetricNames ------------------------------------------------------------------------------

MetricNames::MetricNames(std::vector<std::string_view> names) : names_(std::move(names)) {
  if (names_.empty()) return;
  min_name_bytes_ = std::ranges::min(names_, {}, &std::string_view::size).size();
  const std::size_t width = std::min(min_name_bytes_, window_bytes);
  while (offset_ + width < min_name_bytes_ &&
         std::ranges::all_of(
             names_,
             [&](std::string_view name) { return name[offset_] == names_.front()[offset_]; })) {
    ++offset_;
  }
  std::array<unsigned char, window_bytes> bytes{};
  std::fill_n(bytes.begin(), width, static_cast<unsigned char>(0xff));
  mask_ = std::bit_cast<std::uint64_t>(bytes);
  for (const std::string_view name : names_) {
    const std::size_t bit = bit_of(window(name.data(), name.data() + name.size()));
    bloom_[bit / 64] |= std::uint64_t{1} << (bit % 64);
  }
}

std::uint64_t MetricNames::window(const char* line, const char* end) const {
  const char* begin = line + offset_;
  std::uint64_t word = 0;
  const auto left = static_cast<std::size_t>(end - begin);
  if (left >= window_bytes) {
    std::memcpy(&word, begin, window_bytes);
  } else {
    std::memcpy(&word, begin, left);
  }
  return word & mask_;
}

bool MetricNames::may_match(const char* line, std::size_t size, const char* end) const {
  if (size <= min_name_bytes_ || names_.empty()) return false;
  const std::size_t bit = bit_of(window(line, end));
  return ((bloom_[bit / 64] >> (bit % 64)) & 1) != 0;
}

std::size_t MetricNames::find(std::string_view name) const {
  const auto found = std::ranges::find(names_, name);
  return found == names_.end() ? none : static_cast<std::size_t>(found - names_.begin());
}

// ---- ExpositionReader -------------------------------------------------------------------------

void ExpositionReader::read(std::string_view bytes) {
  if (ended_) return;
  if (has_partial_line()) bytes = finish_partial(bytes);
  const char* at = bytes.data();
  const char* const end = at + bytes.size();
  while (at != end && !ended_) {
    const auto left = static_cast<std::size_t>(end - at);
    const auto* feed = static_cast<const char*>(std::memchr(at, '\n', left));
    if (feed == nullptr) {
      skipping_ = left > max_line_bytes;
      if (!skipping_) partial_.assign(at, left);
      return;
    }
    line(at, static_cast<std::size_t>(feed - at), end);
    at = feed + 1;
  }
}

/// Completes the partial line. Returns what follows it.
std::string_view ExpositionReader::finish_partial(std::string_view bytes) {
  const std::size_t feed = bytes.find('\n');
  const std::string_view rest = bytes.substr(0, feed);
  if (!skipping_ && partial_.size() + rest.size() > max_line_bytes) {
    skipping_ = true;
    partial_.clear();
  }
  if (!skipping_) partial_ += rest;
  if (feed == std::string_view::npos) return {};
  if (!skipping_) line(partial_.data(), partial_.size(), partial_.data() + partial_.size());
  skipping_ = false;
  partial_.clear();
  return bytes.substr(feed + 1);
}

void ExpositionReader::line(const char* begin, std::size_t size, const char* end) {
  if (size > max_line_bytes) return;
  while (size > 0 && is_blank(*begin)) {
    ++begin;
    --size;
  }
  if (size > 0 && *begin == '#') {
    const std::string_view comment(begin, size);
    if (comment == "# EOF" || comment == "# EOF\r") ended_ = true;
    return;
  }
  if (!names_.may_match(begin, size, end)) return;
  const auto sample = parse_sample({begin, size});
  if (!sample) return;
  if (const std::size_t name_index = names_.find(sample->name); name_index != MetricNames::none) {
    sink_.sample(name_index, *sample);
  }
}

}  // namespace evenkeel
