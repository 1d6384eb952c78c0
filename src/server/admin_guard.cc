#include "server/admin_guard.h"

#include <algorithm>
#include <string_view>

namespace evenkeel {
namespace {

bool local_or_address(std::string_view authority) {
  const auto bracket = authority.find(']');
  if (authority.starts_with('[') && bracket != std::string_view::npos) return true;
  const std::string_view host = authority.substr(0, authority.find(':'));
  if (host.empty() || same_name(host, "localhost")) return true;
  return std::all_of(host.begin(), host.end(),
                     [](char c) { return (c >= '0' && c <= '9') || c == '.'; });
}

}  // namespace

bool foreign(const Request& request) {
  if (!local_or_address(request.authority)) return true;
  const auto origin = request.fields.value("origin");
  if (!origin) return false;
  const auto scheme_end = origin->find("://");
  return scheme_end == std::string_view::npos || !local_or_address(origin->substr(scheme_end + 3));
}

}  // namespace evenkeel
