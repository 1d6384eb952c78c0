#include "proxy/credentials.h"

#include <algorithm>

namespace evenkeel {
namespace {

/// True for the names that proxies in front, with log-ins and traces of their own, give what they
/// know of the client.
bool has_prefix(std::string_view name) {
  constexpr std::string_view prefixes[] = {
      "x-forwarded-", "x-evenkeel-", "x-b3-",      "x-original-",  "x-auth-request-",
      "x-amzn-",      "x-goog-",     "x-azure-",   "x-ms-client-", "cf-",
      "x-authentik-", "x-pomerium-", "x-vouch-",   "x-webauth-",   "x-remote-",
      "remote-",      "sentry-",     "x-datadog-", "uber-trace-",  "x-cloud-trace-"};
  return std::ranges::any_of(
      prefixes, [name](std::string_view each) { return starts_with_ignore_case(name, each); });
}

/// True for the names that content networks and load balancers give the client's address.
bool names_address(std::string_view name) {
  for (const std::string_view end : {"client-ip", "connecting-ip", "real-ip"}) {
    if (name.size() >= end.size() && equals_ignore_case(name.substr(name.size() - end.size()), end))
      return true;
  }
  return false;
}

bool is_private(std::string_view name) {
  constexpr std::string_view names[] = {"baggage", "b3", "origin", "referer"};
  return std::ranges::any_of(
      names, [name](std::string_view each) { return equals_ignore_case(name, each); });
}

}  // namespace

bool tells_of_client(const Field& field, const RequestIdentity& identity) {
  switch (field.id) {
    case FieldId::cookie:
    case FieldId::forwarded:
    case FieldId::traceparent:
    case FieldId::tracestate:
    case FieldId::via:
    case FieldId::x_forwarded_client_cert:
    case FieldId::x_forwarded_for:
    case FieldId::x_forwarded_host:
    case FieldId::x_forwarded_proto: return true;
    case FieldId::other: break;
    default: return false;
  }
  const std::string_view name = field.name();
  if (has_prefix(name) || names_address(name) || is_private(name)) return true;
  return identity.reserved_fields != nullptr &&
         std::ranges::any_of(*identity.reserved_fields, [name](const std::string& reserved) {
           return is_spelling_of(name, reserved);
         });
}

}  // namespace evenkeel
