#include "inference/form_request.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "evenkeel/base/ascii.h"
#include "evenkeel/base/path.h"
#include "evenkeel/http/fields.h"
#include "evenkeel/http/media_type.h"
#include "evenkeel/json/text.h"

namespace evenkeel {
namespace {

// Header lines and values that are longer do not matter.
constexpr std::size_t max_line = 512;
constexpr std::size_t max_boundary = 70;  // RFC 2046, section 5.1.1

// Removes a value from the front of `text`: a quoted string, or what precedes the next semicolon.
std::string take_value(std::string_view& text) {
  std::string value;
  if (!text.starts_with('"')) {
    const std::string_view token = text.substr(0, text.find(';'));
    text.remove_prefix(token.size());
    return std::string(trimmed(token));
  }
  text.remove_prefix(1);
  while (!text.empty() && text.front() != '"') {
    if (text.front() == '\\' && text.size() > 1) text.remove_prefix(1);
    value += text.front();
    text.remove_prefix(1);
  }
  text.remove_prefix(std::min(text.find(';'), text.size()));
  return value;
}

// A parameter of a field's value: `name` in "form-data; name=model".
std::string parameter(std::string_view field, std::string_view name) {
  field.remove_prefix(std::min(field.find(';'), field.size()));
  while (!field.empty()) {
    field.remove_prefix(1);  // the semicolon
    const std::size_t equals = field.find_first_of("=;");
    if (equals == std::string_view::npos) return {};
    const std::string_view key = trimmed(field.substr(0, equals));
    field.remove_prefix(equals);
    if (field.front() == ';') continue;
    field.remove_prefix(1);
    field.remove_prefix(std::min(field.find_first_not_of(" \t"), field.size()));
    std::string value = take_value(field);
    if (equals_ignore_case(key, name)) return value;
  }
  return {};
}

/// Occurrences of a parameter, in any case, but for those that end another's name ("filename=").
int count_of(std::string_view line, std::string_view parameter) {
  int count = 0;
  for (std::size_t at = 0; at + parameter.size() <= line.size(); ++at) {
    if (!starts_with_ignore_case(line.substr(at), parameter)) continue;
    count += at == 0 || line[at - 1] == ' ' || line[at - 1] == ';' || line[at - 1] == '\t';
  }
  return count;
}

/// A value of RFC 5987: "UTF-8''caf%C3%A9". Nothing: it is malformed, or of a charset that is not
/// certain.
std::optional<std::string> extended_value(std::string_view text) {
  const std::size_t language = text.find('\'');
  const std::size_t begin = language == text.npos ? text.npos : text.find('\'', language + 1);
  if (begin == text.npos) return std::nullopt;
  const std::string_view charset = text.substr(0, language);
  const bool utf8 = equals_ignore_case(charset, "utf-8");
  if (!utf8 && !equals_ignore_case(charset, "iso-8859-1") &&
      !equals_ignore_case(charset, "us-ascii")) {
    return std::nullopt;
  }
  std::string value;
  for (std::string_view rest = text.substr(begin + 1); !rest.empty(); rest.remove_prefix(1)) {
    char c = rest.front();
    if (c == '%') {
      const auto encoded = percent_encoded_char(rest);
      if (!encoded) return std::nullopt;
      c = *encoded;
      rest.remove_prefix(2);
    }
    if (!utf8 && static_cast<unsigned char>(c) >= 0x80) return std::nullopt;
    value += c;
  }
  return value;
}

/// The name of a part, by its content-disposition. Nothing: it is not certain, since servers differ
/// in what they make of it.
std::optional<std::string> part_name(std::string_view line) {
  const int plain = count_of(line, "name=");
  const int extended = count_of(line, "name*");
  if (plain + extended > 1 || line.find('\\') != line.npos) return std::nullopt;
  line.remove_prefix(std::min(line.find(':') + 1, line.size()));
  if (extended == 0) return parameter(line, "name");
  return count_of(line, "name*=") == 1 ? extended_value(parameter(line, "name*")) : std::nullopt;
}

Slot slot_of(std::string_view name) {
  if (name == "model") return Slot::model;
  if (name == "stream") return Slot::stream;
  if (name == "prompt") return Slot::prompt;
  if (name == "user") return Slot::user;
  return Slot::ignored;
}

bool is_true(std::string_view text) {  // as pydantic reads a form
  constexpr std::string_view words[] = {"true", "1", "on", "yes", "t", "y"};
  return std::ranges::any_of(words, [&](auto word) { return equals_ignore_case(text, word); });
}

}  // namespace

std::string FormRequest::boundary_of(std::string_view content_type) {
  if (!equals_ignore_case(media_type_of(content_type), "multipart/form-data")) return {};
  if (count_of(content_type, "boundary") > 1) return {};  // servers differ in which one counts
  std::string boundary = parameter(content_type, "boundary");
  return boundary.size() <= max_boundary ? boundary : std::string();
}

// The first delimiter may stand at the very beginning, without a line break before it.
FormRequest::FormRequest(std::string_view boundary, InferenceRequest& into)
    : into_(into), facts_(into), delimiter_("\r\n--" + std::string(boundary)) {}

bool FormRequest::read(std::string_view bytes) {
  while (!bytes.empty() && state_ != State::ended) {
    switch (state_) {
      case State::content: read_content(bytes); break;
      case State::delimiter: read_delimiter_end(bytes); break;
      case State::header: read_header(bytes); break;
      case State::ended: break;
    }
  }
  return true;
}

bool FormRequest::finish() {
  into_.complete = complete_ && !lost_;
  stop();
  return true;
}

// A delimiter has its line break only at the beginning, so that a byte that does not continue it
// can only begin another one.
void FormRequest::read_content(std::string_view& bytes) {
  if (matched_ == 0) {
    const std::size_t size = std::min(bytes.find('\r'), bytes.size());
    add_content(bytes.substr(0, size));
    bytes.remove_prefix(size);
    if (bytes.empty()) return;
  }
  if (bytes.front() != delimiter_[matched_]) {
    add_content(std::string_view(delimiter_).substr(0, matched_));
    matched_ = 0;
    return;
  }
  bytes.remove_prefix(1);
  if (++matched_ < delimiter_.size()) return;
  end_part();
  matched_ = 0;
  state_ = State::delimiter;
}

// Two dashes end the form; a line break, perhaps behind spaces, begins a part.
void FormRequest::read_delimiter_end(std::string_view& bytes) {
  const char c = bytes.front();
  bytes.remove_prefix(1);
  if (c == '-' && first_dash_) {
    complete_ = true;
    state_ = State::ended;
  } else if (c == '\n') {
    line_.clear();
    state_ = State::header;
  }
  first_dash_ = c == '-';
}

void FormRequest::read_header(std::string_view& bytes) {
  const std::size_t size = std::min(bytes.find('\n'), bytes.size());
  const std::size_t room = max_line - std::min(max_line, line_.size());
  if (size > room) return lose();
  line_ += bytes.substr(0, std::min(size, room));
  const bool ended = size < bytes.size();
  bytes.remove_prefix(ended ? size + 1 : size);
  if (ended) end_header_line();
}

void FormRequest::end_header_line() {
  if (line_.ends_with('\r')) line_.pop_back();
  if (line_.empty()) {
    state_ = State::content;
    return;
  }
  const std::string_view line = line_;
  const std::size_t colon = std::min(line.find(':'), line.size());
  if (equals_ignore_case(line.substr(0, colon), "content-disposition")) {
    auto name = part_name(line);
    if (has_name_ || !name) return lose();
    has_name_ = true;
    name_ = std::move(*name);
    facts_.clear(slot_of(name_));
    if (slot_of(name_) == Slot::prompt) into_.prompt_bytes = 0;
  }
  line_.clear();
}

/// What the form says is not certain: nothing is known of the request.
void FormRequest::lose() {
  lost_ = true;
  state_ = State::ended;
  into_.model.clear();
}

void FormRequest::add_content(std::string_view bytes) {
  const Slot slot = slot_of(name_);
  if (slot == Slot::ignored) return;
  if (slot == Slot::prompt) into_.prompt_bytes += bytes.size();
  const std::size_t room = InferenceRequest::max_name - value_.size();
  value_ += bytes.substr(0, room);
}

void FormRequest::end_part() {
  const Slot slot = slot_of(name_);
  if (slot == Slot::stream) {
    facts_.set(slot, is_true(value_));
  } else {
    facts_.set(slot, std::string(json::utf8_prefix(value_, value_.size())));
  }
  name_.clear();
  value_.clear();
  has_name_ = false;
}

}  // namespace evenkeel
