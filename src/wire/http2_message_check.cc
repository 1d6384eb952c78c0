#include "http2_message_check.h"

#include <nghttp2/nghttp2.h>

#include <algorithm>
#include <array>
#include <limits>

#include "evenkeel/base/ascii.h"
#include "head_parser.h"

namespace evenkeel {
namespace {

constexpr auto lower_case_token = [] {
  std::array<bool, 256> allowed{};
  for (const char c : std::string_view("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz")) {
    allowed[static_cast<unsigned char>(c)] = true;
  }
  return allowed;
}();

bool is_lower_case_token(std::string_view name) {
  bool fine = true;
  for (const char c : name) fine &= lower_case_token[static_cast<unsigned char>(c)];
  return fine;
}

bool is_blank(char c) { return c == ' ' || c == '\t'; }

bool is_value(std::string_view value) {
  if (value.empty()) return true;
  return !is_blank(value.front()) && !is_blank(value.back()) && is_field_text(value);
}

/// True if the value is a scheme of RFC 3986, section 3.1.
bool is_scheme(std::string_view value) {
  if (value.empty() || !is_letter(value.front())) return false;
  return std::all_of(value.begin(), value.end(), [&](char c) {
    return is_letter_or_digit(c) || c == '+' || c == '-' || c == '.';
  });
}

/// True if one of nghttp2's checks of characters accepts the value.
template <auto check>
bool accepts(std::string_view value) {
  return check(reinterpret_cast<const std::uint8_t*>(value.data()), value.size()) != 0;
}

}  // namespace

Http2MessageCheck::Finding Http2MessageCheck::field(std::string_view name, FieldId id,
                                                    std::string_view value) {
  const auto verdict = [](bool fine) { return fine ? Finding::fine : Finding::malformed; };
  if (name.empty()) return Finding::malformed;
  if (name.front() == ':') return verdict(pseudo_field(name, value));
  seen_ |= regular;
  if (name != lower_case_name(id) && !is_lower_case_token(name)) return Finding::malformed;
  switch (id) {
    case FieldId::connection:
    case FieldId::keep_alive:
    case FieldId::proxy_connection:
    case FieldId::transfer_encoding:
    case FieldId::upgrade: return Finding::malformed;  // section 8.2.2
    case FieldId::te: return verdict(equals_ignore_case(value, "trailers"));
    case FieldId::content_length: return content_length(value);
    case FieldId::host:
      if (!request_) break;
      return verdict(!value.empty() && accepts<nghttp2_check_authority>(value) && mark(host));
    default: break;
  }
  return verdict(is_value(value));
}

bool Http2MessageCheck::pseudo_field(std::string_view name, std::string_view value) {
  if (value.empty() || head_done_ || has(regular)) return false;
  if (!request_) return is_name(name, ":status") && mark(status) && parse_status(value);
  if (is_name(name, ":method")) {
    if (value == "CONNECT") request_method_ = RequestMethod::connect;
    options_ = value == "OPTIONS";
    return mark(method) && accepts<nghttp2_check_method>(value);
  }
  if (is_name(name, ":path")) {
    rooted_path_ = value.starts_with('/');
    asterisk_path_ = value == "*";
    return mark(path) && accepts<nghttp2_check_path>(value);
  }
  if (is_name(name, ":authority"))
    return mark(authority) && accepts<nghttp2_check_authority>(value);
  if (is_name(name, ":scheme")) {
    http_scheme_ = equals_ignore_case(value, "http") || equals_ignore_case(value, "https");
    return mark(scheme) && is_scheme(value);
  }
  return is_name(name, ":protocol") && mark(protocol) && is_value(value);
}

bool Http2MessageCheck::parse_status(std::string_view value) {
  if (value.size() != 3) return false;
  int parsed = 0;
  for (const char c : value) {
    if (c < '0' || c > '9') return false;
    parsed = parsed * 10 + (c - '0');
  }
  status_ = static_cast<std::int16_t>(parsed);
  return parsed != 101;  // RFC 9113, section 8.6
}

Http2MessageCheck::Finding Http2MessageCheck::content_length(std::string_view value) {
  if (!request_ && status_ / 100 == 1) return Finding::malformed;
  const bool to_connect =
      !request_ && request_method_ == RequestMethod::connect && status_ / 100 == 2;
  if (to_connect && status_ != 204) return is_value(value) ? Finding::ignored : Finding::malformed;
  if (length_ != unknown || value.empty()) return Finding::malformed;
  constexpr std::int64_t max = std::numeric_limits<std::int64_t>::max();
  std::int64_t length = 0;
  for (const char c : value) {
    if (c < '0' || c > '9' || length > (max - (c - '0')) / 10) return Finding::malformed;
    length = length * 10 + (c - '0');
  }
  if (!request_ && status_ == 204) {
    // Forbidden (RFC 9110, section 8.6), but some servers say zero.
    if (value != "0") return Finding::malformed;
    length_ = 0;
    return Finding::ignored;
  }
  length_ = length;
  return Finding::fine;
}

bool Http2MessageCheck::end_section(bool last) {
  if (head_done_) {
    if (!last) return false;  // trailers end a message
  } else if (request_) {
    if (!request_complete()) return false;
    head_done_ = true;
    if (request_method_ == RequestMethod::connect && !has(protocol)) length_ = unknown;
  } else if (!end_response_head()) {
    return false;
  }
  return !last || end();
}

bool Http2MessageCheck::request_complete() const {
  const bool connect = request_method_ == RequestMethod::connect;
  if (connect && !has(protocol)) return has(authority) && (seen_ & (scheme | path)) == 0;
  if (!has(method | scheme | path) || (seen_ & (authority | host)) == 0) return false;
  if (has(protocol) && !(connect && has(authority))) return false;  // RFC 8441, section 4
  return !http_scheme_ || rooted_path_ || (asterisk_path_ && options_);
}

bool Http2MessageCheck::end_response_head() {
  if (!has(status)) return false;
  if (status_ / 100 == 1) {
    seen_ = 0;
    status_ = 0;
    length_ = unknown;
    return true;  // another head follows
  }
  head_done_ = true;
  if (request_method_ == RequestMethod::head || status_ == 204 || status_ == 304) {
    length_ = 0;
  } else if (request_method_ == RequestMethod::connect) {
    length_ = unknown;
  }
  return true;
}

}  // namespace evenkeel
