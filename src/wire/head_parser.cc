#include "head_parser.h"

#include <algorithm>
#include <cstring>

#include "evenkeel/base/ascii.h"
#include "text_scan.h"

namespace evenkeel {
namespace {

bool is_blank(char c) { return c == ' ' || c == '\t'; }

}  // namespace

bool is_target_text(std::string_view text) {
  const char* const end = text.data() + text.size();
  return !text.empty() && find_end_of<target_char>(text.data(), end, end) == end;
}

bool is_token(std::string_view text) { return !text.empty() && all_are(text, token_char); }

bool is_method(std::string_view text) { return is_token(text) && text.size() <= max_method_length; }

bool split_field_line(std::string_view line, std::string_view& name, std::string_view& value) {
  const char* end = line.data() + line.size();
  const char* at = find_end_of<token_char>(line.data(), end, end);
  if (at == line.data() || at == end || *at != ':') return false;
  name = {line.data(), static_cast<std::size_t>(at - line.data())};
  ++at;
  while (at != end && is_blank(*at)) ++at;
  while (at != end && is_blank(end[-1])) --end;
  value = {at, static_cast<std::size_t>(end - at)};
  return true;
}

bool is_field_text(std::string_view text) {
  const char* const end = text.data() + text.size();
  return find_end_of<value_char>(text.data(), end, end) == end;
}

HeadParser::Step HeadParser::fail(Fault fault, const char* detail) {
  fault_ = fault;
  detail_ = detail;
  return Step::failed;
}

bool HeadParser::refuse(Fault fault, const char* detail) {
  fail(fault, detail);
  return false;
}

bool HeadParser::exceed(MessageLimit limit) {
  exceeded_limit_ = limit;
  if (limit == MessageLimit::uri) {
    return refuse(Fault::uri_too_long, "the request target is too long");
  }
  return refuse(Fault::header_too_large, limit == MessageLimit::header_fields
                                             ? "too many header fields"
                                             : "the header section is too large");
}

/// Takes the request line if it is whole and as almost all are, in one pass over its bytes. What it
/// leaves alone, `parse` reads.
void HeadParser::take_usual_request_line(const Unread& unread) {
  constexpr char rest[] = " HTTP/1.1\r\n";
  constexpr std::size_t rest_size = sizeof rest - 1;
  const char* const line = unread.begin + size_;
  const char* const space = find_end_of<token_char>(line, unread.end, unread.readable);
  const auto method_size = static_cast<std::size_t>(space - line);
  if (space == unread.end || *space != ' ' || method_size == 0 || method_size > max_method_length)
    return;
  const char* const target = space + 1;
  const char* const end = find_end_of<target_char>(target, unread.end, unread.readable);
  const auto target_size = static_cast<std::size_t>(end - target);
  if (target_size == 0 || target_size > limits_.line) return;
  if (static_cast<std::size_t>(unread.end - end) < rest_size) return;
  if (std::memcmp(end, rest, rest_size) != 0) return;  // of known size: no call
  const std::size_t seen = size_ + method_size + 1 + target_size + rest_size;
  const std::string_view method(line, method_size);
  if (seen > max_start_line() || method == preface_method) return;
  head_.method = method;
  head_.target = {target, target_size};
  size_ = seen;
  start_line_done_ = true;
}

/// Takes the field lines that are whole and as almost all are, in one pass over their bytes: a
/// colon behind the name, at most one space behind that, and a value that neither begins nor ends
/// with another. `parse` reads the first line that is not so.
void HeadParser::take_usual_field_lines(const Unread& unread) {
  const char* line = unread.begin + size_;
  while (head_.fields.size() < limits_.fields) {
    const char* const colon = find_end_of<token_char>(line, unread.end, unread.readable);
    if (colon == line || unread.end - colon < 2 || *colon != ':') break;
    const char* const value = colon + (colon[1] == ' ' ? 2 : 1);
    const char* const cr = find_end_of<value_char>(value, unread.end, unread.readable);
    if (unread.end - cr < 2 || cr[0] != '\r' || cr[1] != '\n') break;
    if (cr == value || is_blank(*value) || is_blank(cr[-1])) break;
    head_.fields.add({line, colon}, {value, cr});
    line = cr + 2;
  }
  size_ = static_cast<std::size_t>(line - unread.begin);
}

HeadParser::Step HeadParser::parse(ReadBuffer& buffer) {
  const std::string_view bytes = buffer.bytes();
  if (bytes.size() == size_) return Step::more;
  const char* const limit = bytes.data() + bytes.size();
  const char* const readable = buffer.block.data() + buffer.block.size();
  if (!started_) {
    // What cannot begin a message is refused at its first byte, not at the deadline.
    started_ = true;
    if (!is(bytes.front(), token_char) && bytes.front() != '\r' && bytes.front() != '\n') {
      return fail(Fault::bad_request, "not HTTP");
    }
  }
  while (true) {
    if (scanned_ == 0) {
      const Unread unread{bytes.data(), bytes.data() + std::min(bytes.size(), limits_.bytes),
                          readable};
      if (!start_line_done_ && kind_ == Kind::request) take_usual_request_line(unread);
      if (start_line_done_) take_usual_field_lines(unread);
    }
    const char* const from = bytes.data() + size_;
    const char* const cr = find_end_of<value_char>(from + scanned_, limit, readable);
    if (cr != limit && *cr != '\r') {
      const char* const what = kind_ == Kind::request ? "control character in the request head"
                                                      : "control character in the response head";
      return fail(Fault::bad_request, *cr == '\n' ? "a line ends without CR" : what);
    }
    const bool whole = limit - cr >= 2;
    if (whole && cr[1] != '\n') return fail(Fault::bad_request, "a CR within a line");
    const auto seen = static_cast<std::size_t>(cr - bytes.data()) + (whole ? 2 : 0);
    if (!start_line_done_ && kind_ == Kind::request && seen > max_start_line()) {
      exceed(MessageLimit::uri);
      return Step::failed;
    }
    if (seen > limits_.bytes) {
      exceed(MessageLimit::header);
      return Step::failed;
    }
    if (!whole) {
      scanned_ = static_cast<std::uint32_t>(cr - from);
      return Step::more;
    }
    size_ = seen;
    scanned_ = 0;
    const std::string_view line(from, cr);
    if (start_line_done_ && line.empty()) {
      buffer.begin += static_cast<std::uint32_t>(size_);
      return Step::done;
    }
    if (!parse_line(line)) return Step::failed;
  }
}

bool HeadParser::parse_line(std::string_view line) {
  if (start_line_done_) return parse_field_line(line);
  if (line.empty() && !skipped_crlf_) {  // RFC 9112 2.2: ignore one empty line before
    skipped_crlf_ = true;
    return true;
  }
  start_line_done_ = true;
  return kind_ == Kind::request ? parse_request_line(line) : parse_status_line(line);
}

bool HeadParser::grow_buffer(ReadBuffer& buffer) {
  if (buffer.block.size() == Block::large && buffer.begin == 0) {
    return exceed(MessageLimit::header);
  }
  Block larger = Block::take(Block::large);
  const std::string_view bytes = buffer.bytes();
  std::memcpy(larger.data(), bytes.data(), bytes.size());
  head_.fields.rebase(bytes.data(), bytes.size(), larger.data());
  const auto move = [&](std::string_view& view) {
    if (!view.empty()) view = {larger.data() + (view.data() - bytes.data()), view.size()};
  };
  move(head_.method);
  move(head_.target);
  move(head_.reason_phrase);
  buffer.end = static_cast<std::uint32_t>(bytes.size());
  buffer.begin = 0;
  buffer.block = std::move(larger);
  return true;
}

bool HeadParser::parse_request_line(std::string_view line) {
  const auto first = line.find(' ');
  if (first == std::string_view::npos) return refuse(Fault::bad_request, "no request target");
  const auto second = line.find(' ', first + 1);
  if (second == std::string_view::npos) return refuse(Fault::bad_request, "no protocol version");
  head_.method = {line.data(), first};
  head_.target = {line.data() + first + 1, second - first - 1};
  const std::string_view version(line.data() + second + 1, line.size() - second - 1);
  const bool is_1_1 = version == "HTTP/1.1";

  // Not even a misspelt HTTP version: the client would not understand a response in HTTP.
  other_protocol_ = !is_1_1 && version.find(' ') == std::string_view::npos &&
                    !starts_with_ignore_case(version, "HTTP");
  if (!is_method(head_.method)) {
    return refuse(Fault::bad_request, "the method is not a token");
  }
  if (head_.target.size() > limits_.line) {
    return exceed(MessageLimit::uri);
  }
  if (!is_target_text(head_.target)) {
    return refuse(Fault::bad_request, "invalid character in the request target");
  }
  if (head_.method == preface_method && version.starts_with("HTTP/1.")) {
    return refuse(Fault::bad_request, "the method is that of HTTP/2's preface");
  }
  if (is_1_1) return head_.minor_version = 1, true;
  if (version == "HTTP/1.0") return head_.minor_version = 0, true;
  const bool other_major = version.size() == 8 && version.starts_with("HTTP/") &&
                           is_digit(version[5]) && version[5] != '1' && version[6] == '.' &&
                           is_digit(version[7]);
  return other_major ? refuse(Fault::version_not_supported, "only HTTP/1.1 and HTTP/1.0 are served")
                     : refuse(Fault::bad_request, "invalid protocol version");
}

bool HeadParser::parse_status_line(std::string_view line) {
  // "HTTP/1.1 200 OK"; some servers omit the phrase and the space before it.
  if (line.size() < 12 || std::memcmp(line.data(), "HTTP/1.", 7) != 0 ||
      (line[7] != '0' && line[7] != '1') || line[8] != ' ') {
    return refuse(Fault::backend_protocol, "invalid status line");
  }
  int status = 0;
  for (const char c : line.substr(9, 3)) {
    if (c < '0' || c > '9') return refuse(Fault::backend_protocol, "invalid status code");
    status = status * 10 + (c - '0');
  }
  if (status < 100 || status > 599 || (line.size() > 12 && line[12] != ' ')) {
    return refuse(Fault::backend_protocol, "invalid status code");
  }
  head_.minor_version = line[7] - '0';
  head_.status = status;
  head_.reason_phrase = line.size() > 13 ? line.substr(13) : std::string_view();
  return true;
}

bool HeadParser::parse_field_line(std::string_view line) {
  if (head_.fields.size() == limits_.fields) {
    return exceed(MessageLimit::header_fields);
  }
  std::string_view name;
  std::string_view value;
  if (!split_field_line(line, name, value)) {
    const bool folded = line.front() == ' ' || line.front() == '\t';
    return refuse(Fault::bad_request, folded ? "folded header line" : "invalid header field");
  }
  head_.fields.add(name, value);
  return true;
}

}  // namespace evenkeel
