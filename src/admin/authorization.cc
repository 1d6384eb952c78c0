#include "admin/authorization.h"

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <variant>

#include "evenkeel/base/file.h"
#include "evenkeel/base/log.h"

namespace evenkeel {
namespace {

constexpr std::size_t min_token_bytes = 16;
constexpr std::size_t max_token_bytes = 4096;

bool is_local_authority(std::string_view authority) {
  const auto bracket = authority.find(']');
  if (authority.starts_with('[') && bracket != std::string_view::npos) return true;
  const std::string_view host = authority.substr(0, authority.find(':'));
  if (host.empty() || equals_ignore_case(host, "localhost")) return true;
  return std::all_of(host.begin(), host.end(),
                     [](char c) { return (c >= '0' && c <= '9') || c == '.'; });
}

/// The authority of a URL or an origin; empty: it has none ("null").
std::string_view authority_of(std::string_view url) {
  const auto scheme_end = url.find("://");
  if (scheme_end == std::string_view::npos) return {};
  const std::string_view rest = url.substr(scheme_end + 3);
  return rest.substr(0, rest.find_first_of("/?#"));
}

/// There is no such page, or it is ours.
bool is_same_origin(const Request& request, const std::optional<std::string_view>& url) {
  return !url || equals_ignore_case(authority_of(*url), request.authority);
}

bool is_loopback_client(const Request& request) {
  constexpr std::string_view mapped = "::ffff:";
  std::string_view client = request.info.identity.client;
  if (client.starts_with(mapped)) client.remove_prefix(mapped.size());
  return client == "::1" || client.starts_with("127.");
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view space = " \t\r\n";
  const auto begin = text.find_first_not_of(space);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(space) + 1 - begin);
}

/// Empty: there is none that may be used.
std::string read_token(const std::string& file) {
  constexpr std::size_t max_padding = 64;
  const auto read = read_file(file, max_token_bytes + max_padding);
  const auto* text = std::get_if<std::string>(&read);
  const std::string_view token = text == nullptr ? std::string_view() : trimmed(*text);
  if (token.size() < min_token_bytes || token.size() > max_token_bytes) {
    log::error("admin: " + file +
               " holds no token of 16 to 4096 bytes; calls with one are refused");
    return {};
  }
  return std::string(token);
}

/// What `authorization: Bearer` carries; empty: nothing.
std::string_view bearer_token(const Request& request) {
  constexpr std::string_view scheme = "bearer ";
  const auto credentials = request.fields.value("authorization");
  if (!credentials || credentials->size() <= scheme.size()) return {};
  if (!equals_ignore_case(credentials->substr(0, scheme.size()), scheme)) return {};
  return trimmed(credentials->substr(scheme.size()));
}

/// Takes as long whatever the bytes are.
bool constant_time_equal(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i]);
  }
  return difference == 0;
}

}  // namespace

std::optional<AdminRefusal> check_origin(const Request& request) {
  if (!is_local_authority(request.authority)) {
    return AdminRefusal{403, "ask by address or as localhost: a foreign Host is refused"};
  }
  if (!is_same_origin(request, request.fields.value("origin"))) {
    return AdminRefusal{403, "ask from no page or from our own: a foreign Origin is refused"};
  }
  return std::nullopt;
}

std::optional<AdminRefusal> authorize_change(const Request& request,
                                             const std::string& token_file) {
  // What tells of pages where a browser sends no Origin. A link in one may lead to what is only
  // read; nothing of the kind may change anything.
  const auto site = request.fields.value("sec-fetch-site");
  const bool same_site = !site || *site == "same-origin" || *site == "none";
  if (!same_site || !is_same_origin(request, request.fields.value("referer"))) {
    return AdminRefusal{403, "a change that another site's page asks for is refused"};
  }
  if (is_loopback_client(request)) return std::nullopt;
  if (token_file.empty()) {
    return AdminRefusal{403,
                        "changes are taken from this machine only, or with a token where the "
                        "file names one in admin.token_file"};
  }
  const std::string_view presented = bearer_token(request);
  if (presented.empty()) {
    return AdminRefusal{401, "changes from another machine need authorization: Bearer TOKEN"};
  }
  const std::string token = read_token(token_file);
  if (!token.empty() && constant_time_equal(presented, token)) return std::nullopt;
  return AdminRefusal{403, "the token is not the one in admin.token_file"};
}

}  // namespace evenkeel
