#include "head_parser.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include <array>
#include <bit>
#include <cstring>

namespace evenkeel {
namespace {

enum CharClass : std::uint8_t {
  token_char = 1,   // RFC 9110 tchar
  value_char = 2,   // field-vchar, SP, HTAB and obs-text
  target_char = 4,  // characters of a request target
};

constexpr std::array<std::uint8_t, 256> make_classes() {
  std::array<std::uint8_t, 256> classes{};
  for (unsigned c = 0; c < 256; ++c) {
    std::uint8_t bits = 0;
    const bool alnum = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (alnum) bits |= token_char;
    if (c == '\t' || (c >= 0x20 && c != 0x7f)) bits |= value_char;
    if (c > 0x20 && c < 0x7f) bits |= target_char;
    classes[c] = bits;
  }
  for (const char c :
       {'!', '#', '$', '%', '&', '\'', '*', '+', '-', '.', '^', '_', '`', '|', '~'}) {
    classes[static_cast<unsigned char>(c)] |= token_char;
  }
  for (const char c : {'#', '"', '<', '>', '\\'}) {
    classes[static_cast<unsigned char>(c)] &= static_cast<std::uint8_t>(~target_char);
  }
  return classes;
}

constexpr auto classes = make_classes();

bool is(char c, CharClass wanted) { return (classes[static_cast<unsigned char>(c)] & wanted) != 0; }

bool all_are(std::string_view text, CharClass wanted) {
  std::uint8_t bits = 0xff;
  for (const char c : text) bits &= classes[static_cast<unsigned char>(c)];
  return (bits & wanted) != 0;
}

/// The first byte in [from, end) that is no token character.
const char* find_token_end(const char* from, const char* end) {
#if defined(__SSE2__)
  // Sixteen at a time while all are letters, digits or dashes, as in almost every field name.
  while (end - from >= 16) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
    const __m128i letters =
        _mm_sub_epi8(_mm_or_si128(bytes, _mm_set1_epi8(0x20)), _mm_set1_epi8('a'));
    const __m128i digits = _mm_sub_epi8(bytes, _mm_set1_epi8('0'));
    const __m128i plain =
        _mm_or_si128(_mm_or_si128(_mm_cmpeq_epi8(_mm_min_epu8(letters, _mm_set1_epi8(25)), letters),
                                  _mm_cmpeq_epi8(_mm_min_epu8(digits, _mm_set1_epi8(9)), digits)),
                     _mm_cmpeq_epi8(bytes, _mm_set1_epi8('-')));
    const auto mask = static_cast<unsigned>(_mm_movemask_epi8(plain));
    from += std::countr_one(mask & 0xffffu);
    if (mask != 0xffffu) break;
  }
#endif
  while (from != end && is(*from, token_char)) ++from;
  return from;
}

/// The first byte in [from, end) that is not allowed in a line: a control character other than
/// HTAB, or DEL. In a valid line that is the CR at its end.
const char* find_control(const char* from, const char* end) {
#if defined(__SSE2__)
  const __m128i space = _mm_set1_epi8(0x20);
  const __m128i tab = _mm_set1_epi8('\t');
  const __m128i del = _mm_set1_epi8(0x7f);
  for (; end - from >= 16; from += 16) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
    // Unsigned "less than a space": the minimum with 0x1f is the byte itself.
    const __m128i below =
        _mm_cmpeq_epi8(_mm_min_epu8(bytes, _mm_sub_epi8(space, _mm_set1_epi8(1))), bytes);
    const __m128i bad = _mm_or_si128(_mm_andnot_si128(_mm_cmpeq_epi8(bytes, tab), below),
                                     _mm_cmpeq_epi8(bytes, del));
    const auto mask = static_cast<unsigned>(_mm_movemask_epi8(bad));
    if (mask != 0) return from + std::countr_zero(mask);
  }
#endif
  while (from != end && is(*from, value_char)) ++from;
  return from;
}

}  // namespace

bool is_target_text(std::string_view text) { return !text.empty() && all_are(text, target_char); }

bool is_token(std::string_view text) { return !text.empty() && all_are(text, token_char); }

bool is_method(std::string_view text) { return is_token(text) && text.size() <= max_method_length; }

bool split_field_line(std::string_view line, std::string_view& name, std::string_view& value) {
  const char* end = line.data() + line.size();
  const char* at = find_token_end(line.data(), end);
  if (at == line.data() || at == end || *at != ':') return false;
  name = {line.data(), static_cast<std::size_t>(at - line.data())};
  ++at;
  while (at != end && (*at == ' ' || *at == '\t')) ++at;
  while (at != end && (end[-1] == ' ' || end[-1] == '\t')) --end;
  value = {at, static_cast<std::size_t>(end - at)};
  return true;
}

bool is_field_text(std::string_view text) {
  const char* end = text.data() + text.size();
  return find_control(text.data(), end) == end;
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

HeadParser::Step HeadParser::parse(ReadBuffer& buffer) {
  const std::string_view bytes = buffer.bytes();
  const char* const limit = bytes.data() + bytes.size();
  while (true) {
    const char* from = bytes.data() + size_;
    const std::size_t left = bytes.size() - size_;
    if (left == 0) return Step::more;
    if (!started_) {
      // What cannot begin a message is refused at its first byte, not at the deadline.
      started_ = true;
      if (*from != '\r' && *from != '\n' && !is(*from, token_char)) {
        return fail(Fault::bad_request, "not HTTP");
      }
    }
    const char* cr = find_control(from + scanned_, limit);
    if (cr != limit && *cr != '\r') {
      return fail(Fault::bad_request,
                  *cr == '\n' ? "a line ends without CR" : "control character in the request head");
    }
    const bool whole = limit - cr >= 2;
    if (whole && cr[1] != '\n') return fail(Fault::bad_request, "a CR within a line");
    const auto seen = static_cast<std::size_t>(cr - bytes.data()) + (whole ? 2 : 0);
    if (!start_line_done_ && kind_ == Kind::request &&
        seen > limits_.line + max_method_length + 12) {
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
    const std::string_view line(from, static_cast<std::size_t>(cr - from));
    size_ = seen;
    scanned_ = 0;

    if (!start_line_done_) {
      if (line.empty() && !skipped_crlf_) {  // RFC 9112 2.2: ignore one empty line before
        skipped_crlf_ = true;
        continue;
      }
      const bool good = kind_ == Kind::request ? parse_request_line(line) : parse_status_line(line);
      if (!good) return Step::failed;
      start_line_done_ = true;
      continue;
    }
    if (line.empty()) {
      buffer.begin += static_cast<std::uint32_t>(size_);
      return Step::done;
    }
    if (!parse_field_line(line)) return Step::failed;
  }
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
                    (version.size() < 4 || !equals_ignore_case(version.substr(0, 4), "HTTP"));
  if (!is_method(head_.method)) {
    return refuse(Fault::bad_request, "the method is not a token");
  }
  if (head_.target.size() > limits_.line) {
    return exceed(MessageLimit::uri);
  }
  if (head_.target.empty() || !all_are(head_.target, target_char)) {
    return refuse(Fault::bad_request, "invalid character in the request target");
  }
  if (head_.method == preface_method && version.starts_with("HTTP/1.")) {
    return refuse(Fault::bad_request, "the method is that of HTTP/2's preface");
  }
  if (is_1_1) return head_.minor_version = 1, true;
  if (version == "HTTP/1.0") return head_.minor_version = 0, true;
  const bool other_major = version.size() == 8 && version.starts_with("HTTP/") &&
                           version[5] >= '0' && version[5] <= '9' && version[5] != '1' &&
                           version[6] == '.' && version[7] >= '0' && version[7] <= '9';
  return other_major ? refuse(Fault::version_not_supported, "only HTTP/1.1 and HTTP/1.0 are served")
                     : refuse(Fault::bad_request, "invalid protocol version");
}

bool HeadParser::parse_status_line(std::string_view line) {
  // "HTTP/1.1 200 OK"; some servers omit the phrase and the space before it.
  if (line.size() < 12 || !line.starts_with("HTTP/1.") || (line[7] != '0' && line[7] != '1') ||
      line[8] != ' ') {
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
