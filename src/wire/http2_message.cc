#include "http2_message.h"

#include <charconv>

#include "evenkeel/base/host.h"
#include "evenkeel/net/websocket_key.h"
#include "head_parser.h"
#include "http2_message_check.h"
#include "message_rules.h"

namespace evenkeel {

void Http2Section::add_status(int status) {
  const char digits[] = {static_cast<char>('0' + status / 100),
                         static_cast<char>('0' + status / 10 % 10),
                         static_cast<char>('0' + status % 10)};
  fields_.add(":status", fields_.keep({digits, sizeof digits}), FieldId::other);
}

void Http2Section::add_length(std::uint64_t length) {
  char digits[20];
  const auto written = std::to_chars(digits, digits + sizeof digits, length);
  const auto size = static_cast<std::size_t>(written.ptr - digits);
  fields_.add("content-length", fields_.keep({digits, size}), FieldId::content_length);
}

void Http2Section::add_all(const Fields& fields) {
  for (const Field& field : fields) {
    if (field.id == FieldId::upgrade) continue;  // RFC 9113 8.2.2
    const std::string_view known = lower_case_name(field.id);
    fields_.add(known.empty() ? kept(field.name()) : known, kept(field.value()), field.id,
                field.never_indexed);
  }
}

void add_received(Fields& fields, const Field& field) {
  const std::string_view known = lower_case_name(field.id);  // the same bytes, not to be copied
  fields.add(known.empty() ? fields.keep(field.name()) : known, fields.keep(field.value()),
             field.id, field.never_indexed);
}

void Http2RequestHead::field(Request& request, const Field& field) {
  Fields& fields = request.fields;
  const std::string_view name = field.name();
  const std::string_view value = field.value();
  if (name.front() == ':') {
    if (is_name(name, ":method")) {
      request.method = fields.keep(value);
    } else if (is_name(name, ":path")) {
      request.path = fields.keep(value);
      request.path_never_indexed = field.never_indexed;
    } else if (is_name(name, ":authority")) {
      request.authority = fields.keep(value);
    } else if (is_name(name, ":scheme")) {
      request.scheme = value == "https" ? "https" : "http";
      if (value != "https" && value != "http") problem_ = "the scheme is neither http nor https";
    } else if (is_name(name, ":protocol")) {
      protocol_ = fields.keep(value);
      request.is_extended_connect = true;
    }
    return;
  }
  switch (field.id) {
    case FieldId::http2_settings:
    case FieldId::trailer: return;
    case FieldId::content_length:
      length = parse_length(value);
      if (!length) problem_ = "invalid content-length";
      return;
    case FieldId::host:
      if (!host_.empty()) problem_ = "multiple host fields";
      host_ = fields.keep(value);
      return;
    case FieldId::te: request.wants_trailers = true; return;  // its only allowed value
    case FieldId::expect:
      if (equals_ignore_case(value, "100-continue")) {
        expects_continue = true;
      } else {
        problem_ = "only 100-continue is supported in expect";
        fault_ = Fault::expectation_failed;
      }
      return;
    case FieldId::cookie:
      if (!cookies_.empty()) cookies_ += "; ";
      cookies_ += value;
      secret_cookies_ |= field.never_indexed;
      return;
    case FieldId::other:
      if (is_underscore_alias(name)) return;
      break;
    default: break;
  }
  add_received(fields, field);
}

/// Turns an extended CONNECT into a request for an upgrade. The client's key, which RFC 8441 gives
/// no meaning, is replaced.
const char* Http2RequestHead::accept_extended_connect(Request& request) {
  if (request.method != "CONNECT") return ":protocol without CONNECT";
  if (!equals_ignore_case(protocol_, "websocket")) {
    fault_ = Fault::not_implemented;
    return "only websocket is supported in :protocol";
  }
  if (length) return "content-length in an extended CONNECT";
  expects_continue = false;
  request.method = "GET";
  request.upgrade = "websocket";
  request.fields.remove("sec-websocket-accept");
  request.fields.remove("sec-websocket-key");
  request.fields.add("sec-websocket-key", request.fields.keep(make_websocket_key()));
  return nullptr;
}

const char* Http2RequestHead::finish(Request& request) {
  if (problem_ != nullptr) return problem_;
  if (!cookies_.empty()) {
    request.fields.add("cookie", request.fields.keep(cookies_), FieldId::cookie, secret_cookies_);
  }
  if (!is_method(request.method) || request.method == preface_method) return "invalid method";
  if (request.is_extended_connect) [[unlikely]] {
    if (const char* problem = accept_extended_connect(request)) return problem;
  }
  if (request.method == "CONNECT" || request.method == "TRACE") {
    fault_ = Fault::method_not_allowed;
    return "method not supported";
  }
  const bool asterisk = request.path == "*" && request.method == "OPTIONS";
  if (!asterisk && (!request.path.starts_with('/') || !is_target_text(request.path))) {
    return "the request target is not a path";
  }
  if (request.authority.empty()) {
    request.authority = host_;
  } else if (!host_.empty() && host_ != request.authority) {
    const bool secure = request.scheme == "https";
    if (normal_authority(host_, secure) != normal_authority(request.authority, secure)) {
      return "host differs from :authority";
    }
  }
  if (!is_authority(request.authority)) return "invalid :authority";
  return nullptr;
}

}  // namespace evenkeel
