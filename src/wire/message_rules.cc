#include "message_rules.h"

#include <algorithm>
#include <array>

#include "evenkeel/base/ascii.h"
#include "evenkeel/base/hex.h"
#include "evenkeel/http/credentials.h"
#include "evenkeel/http/fields.h"

namespace evenkeel {
namespace {

constexpr auto host_chars = [] {
  std::array<bool, 256> allowed{};
  for (unsigned c = 0; c < 256; ++c) allowed[c] = is_letter_or_digit(static_cast<char>(c));
  for (const char c : std::string_view("-._~%!$&'()*+;="))
    allowed[static_cast<unsigned char>(c)] = true;
  return allowed;
}();

bool is_host_char(char c) { return host_chars[static_cast<unsigned char>(c)]; }

constexpr std::string_view forbidden_prefixes[] = {"content-", "if-",         "x-forwarded-",
                                                   "proxy-",   "x-evenkeel-", "accept"};
constexpr std::string_view forbidden_names[] = {
    "age",   "cache-control", "expires", "location",  "max-forwards",    "pragma",
    "range", "set-cookie",    "vary",    "x-real-ip", "www-authenticate"};

/// The name as CGI and WSGI servers read it: underscores become dashes.
std::string_view dashed(std::string_view name, std::array<char, 64>& storage) {
  if (name.size() > storage.size() || name.find('_') == std::string_view::npos) return name;
  for (std::size_t i = 0; i < name.size(); ++i) storage[i] = name[i] == '_' ? '-' : name[i];
  return {storage.data(), name.size()};
}

}  // namespace

bool is_authority(std::string_view text) {
  const char* at = text.data();
  const char* const end = at + text.size();
  if (text.starts_with('[')) {
    for (++at; at != end && *at != ']'; ++at) {
      if (hex_value(*at) < 0 && *at != ':' && *at != '.') return false;
    }
    if (at == end || at == text.data() + 1) return false;
    ++at;
  } else {
    while (at != end && is_host_char(*at)) ++at;
    if (at == text.data()) return false;
  }
  if (at == end) return true;
  if (*at != ':') return false;
  constexpr unsigned max_port = 65535;
  unsigned number = 0;
  for (++at; at != end; ++at) {
    const unsigned digit = static_cast<unsigned char>(*at) - unsigned{'0'};
    if (digit > 9) return false;
    number = number * 10 + digit;
    if (number > max_port) return false;
  }
  return true;
}

bool is_underscore_alias(std::string_view name) {
  std::array<char, 64> storage;
  const std::string_view plain = dashed(name, storage);
  if (plain.data() == name.data()) return false;
  return field_id(plain) != FieldId::other || starts_with_ignore_case(plain, "x-forwarded-") ||
         starts_with_ignore_case(plain, "x-evenkeel-") || equals_ignore_case(plain, "x-real-ip") ||
         names_credential(plain);
}

bool is_forbidden_in_trailers(std::string_view sent_name) {
  std::array<char, 64> storage;
  const std::string_view name = dashed(sent_name, storage);
  switch (field_id(name)) {
    case FieldId::other: break;
    case FieldId::date:
    case FieldId::server:
    case FieldId::traceparent:
    case FieldId::tracestate:
    case FieldId::user_agent:
    case FieldId::x_request_id: return name.data() != sent_name.data();
    default: return true;
  }
  for (const std::string_view beginning : forbidden_prefixes) {
    if (starts_with_ignore_case(name, beginning)) return true;
  }
  for (const std::string_view forbidden : forbidden_names) {
    if (equals_ignore_case(name, forbidden)) return true;
  }
  return names_credential(name);
}

void remove_reserved(Fields& trailers, const RequestIdentity& identity) {
  if (identity.reserved_fields == nullptr) return;
  trailers.remove_if([&](const Field& field) {
    return std::any_of(identity.reserved_fields->begin(), identity.reserved_fields->end(),
                       [&](const std::string& name) { return is_spelling_of(field.name(), name); });
  });
}

}  // namespace evenkeel
