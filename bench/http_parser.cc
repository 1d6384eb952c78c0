#include "bench/http_parser.h"

#include <strings.h>

#include <algorithm>
#include <charconv>

namespace evenkeel::bench {
namespace {

bool equals_ignore_case(std::string_view name, std::string_view lower_case) {
  return name.size() == lower_case.size() &&
         strncasecmp(name.data(), lower_case.data(), name.size()) == 0;
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\r')) text.remove_suffix(1);
  return text;
}

void note_field(HttpHead& head, std::string_view line) {
  // Few headers matter; the first letter rules out most lines.
  if (line.empty() || ((line.front() | 0x20) != 'c' && (line.front() | 0x20) != 't' &&
                       (line.front() | 0x20) != 'e')) {
    return;
  }
  const std::size_t colon = line.find(':');
  if (colon == std::string_view::npos) return;
  const std::string_view name = line.substr(0, colon);
  const std::string_view value = trimmed(line.substr(colon + 1));
  if (equals_ignore_case(name, "content-length")) {
    std::uint64_t length = 0;
    std::from_chars(value.data(), value.data() + value.size(), length);
    head.content_length = length;
  } else if (equals_ignore_case(name, "transfer-encoding")) {
    head.chunked = equals_ignore_case(value, "chunked");
  } else if (equals_ignore_case(name, "connection")) {
    head.close = equals_ignore_case(value, "close");
  } else if (equals_ignore_case(name, "expect")) {
    head.expects_continue = equals_ignore_case(value, "100-continue");
  }
}

int hex_digit(char byte) {
  if (byte >= '0' && byte <= '9') return byte - '0';
  const char lower = static_cast<char>(byte | 0x20);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

}  // namespace

std::optional<HttpHead> parse_head(std::string_view bytes) {
  const std::size_t end = bytes.find("\r\n\r\n");
  if (end == std::string_view::npos) return std::nullopt;

  HttpHead head;
  head.size_bytes = end + 4;
  std::string_view rest = bytes.substr(0, end + 2);
  head.start_line = rest.substr(0, rest.find("\r\n"));
  rest.remove_prefix(head.start_line.size() + 2);
  while (!rest.empty()) {
    const std::size_t line_end = rest.find('\n');
    note_field(head, rest.substr(0, line_end));
    rest.remove_prefix(line_end + 1);
  }
  return head;
}

std::string_view request_target(std::string_view request_line) {
  const std::size_t before = request_line.find(' ');
  if (before == std::string_view::npos) return {};
  const std::size_t after = request_line.find(' ', before + 1);
  if (after == std::string_view::npos) return {};
  return request_line.substr(before + 1, after - before - 1);
}

int status_code(std::string_view status_line) {
  if (status_line.size() < 12 || !status_line.starts_with("HTTP/1.")) return 0;
  int status = 0;
  std::from_chars(status_line.data() + 9, status_line.data() + 12, status);
  return status;
}

BodyParser BodyParser::of_length(std::uint64_t bytes) {
  return bytes == 0 ? none() : BodyParser(State::kLength, bytes);
}

void BodyParser::skip(std::uint64_t bytes) {
  left_ -= std::min(left_, bytes);
  if (left_ == 0) state_ = State::kDone;
}

BodyParser::Step BodyParser::step(std::string_view bytes) {
  switch (state_) {
    case State::kLength: return take_data(bytes, State::kDone);
    case State::kData: return take_data(bytes, State::kDataEnd);
    case State::kUntilClose: return {.consumed = bytes.size(), .payload = bytes};
    default: break;
  }
  Step step;
  while (step.consumed < bytes.size() && state_ != State::kData && !done() && !broken()) {
    take_framing(bytes[step.consumed++]);
  }
  return step;
}

BodyParser::Step BodyParser::take_data(std::string_view bytes, State after) {
  const auto taken = static_cast<std::size_t>(std::min<std::uint64_t>(left_, bytes.size()));
  left_ -= taken;
  if (left_ == 0) state_ = after;
  return {.consumed = taken, .payload = bytes.substr(0, taken)};
}

void BodyParser::take_framing(char byte) {
  switch (state_) {
    case State::kSize: return take_size(byte);
    case State::kExtension:
      if (byte == '\n') state_ = left_ == 0 ? State::kTrailerStart : State::kData;
      return;
    case State::kDataEnd:
      if (byte == '\n') state_ = State::kSize;
      return;
    case State::kTrailerStart:
      if (byte == '\n') {
        state_ = State::kDone;
      } else if (byte != '\r') {
        state_ = State::kTrailer;
      }
      return;
    case State::kTrailer:
      if (byte == '\n') state_ = State::kTrailerStart;
      return;
    default: state_ = State::kBroken;
  }
}

void BodyParser::take_size(char byte) {
  if (const int digit = hex_digit(byte); digit >= 0) {
    left_ = left_ * 16 + static_cast<std::uint64_t>(digit);
  } else if (byte == '\n') {
    state_ = left_ == 0 ? State::kTrailerStart : State::kData;
  } else if (byte == '\r' || byte == ';' || byte == ' ') {
    state_ = State::kExtension;
  } else {
    state_ = State::kBroken;
  }
}

}  // namespace evenkeel::bench
