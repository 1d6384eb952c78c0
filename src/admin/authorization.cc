#include "admin/authorization.h"

#include <cstddef>
#include <string_view>

#include "evenkeel/base/ascii.h"
#include "evenkeel/base/glob.h"
#include "evenkeel/base/host.h"
#include "evenkeel/base/log.h"
#include "evenkeel/config/named_files.h"
#include "evenkeel/http/fields.h"

namespace evenkeel {
namespace {

/// True if the host is localhost, an address or none. `host` is normal.
bool is_local_host(std::string_view host) {
  return host.empty() || host == "localhost" || parse_ip(host) ||
         host.find_first_not_of("0123456789.") == host.npos;
}

bool is_secure(std::string_view url) { return starts_with_ignore_case(url, "https:"); }

/// The authority of a URL or an origin; empty: it has none (the origin "null").
std::string_view authority_in(std::string_view url) {
  const auto scheme_end = url.find("://");
  if (scheme_end == std::string_view::npos) return {};
  const std::string_view rest = url.substr(scheme_end + 3);
  return rest.substr(0, rest.find_first_of("/?#"));
}

/// True if the request names no such page, or one of this listener's own.
bool is_same_origin(const AdminRequest& request, const std::optional<std::string_view>& url) {
  if (!url) return true;
  const bool secure = is_secure(*url);
  return normal_authority(authority_in(*url), secure) == normal_authority(request.host, secure);
}

bool is_loopback_client(const AdminRequest& request) {
  const std::string client = normal_host(request.client);
  return client == "::1" || client.starts_with("127.");
}

/// Returns an empty string if the file holds no usable token.
std::string read_token(const std::string& file) {
  auto token = read_admin_token(file);
  if (token) return std::move(*token);
  log::admin.error("admin: " + file +
                   " holds no token of 16 to 4096 bytes: what needs it is refused");
  return {};
}

/// The token of `authorization: Bearer`; empty: there is none.
std::string_view bearer_token(const AdminRequest& request) {
  constexpr std::string_view scheme = "bearer ";
  const auto credentials = request.field("authorization");
  if (!credentials || credentials->size() <= scheme.size()) return {};
  if (!starts_with_ignore_case(*credentials, scheme)) return {};
  return trimmed(credentials->substr(scheme.size()), " \t\r\n");
}

/// Takes the same time wherever the texts differ.
bool constant_time_equal(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i]);
  }
  return difference == 0;
}

std::optional<AdminRefusal> check_token(const AdminRequest& request, const std::string& file,
                                        std::string_view missing) {
  const std::string_view presented = bearer_token(request);
  if (presented.empty()) return AdminRefusal{401, std::string(missing)};
  const std::string token = read_token(file);
  if (!token.empty() && constant_time_equal(presented, token)) return std::nullopt;
  return AdminRefusal{403, "the token is not the one in admin.token_file"};
}

}  // namespace

bool is_known_host(std::string_view host, const std::vector<std::string>& patterns, bool globs) {
  const std::string name = normal_host(host_of(host));
  if (is_local_host(name)) return true;
  for (const std::string& pattern : patterns) {
    if (!globs && pattern.find('*') != std::string::npos) continue;
    if (matches_glob(normal_host(pattern), name)) return true;
  }
  return false;
}

std::optional<AdminRefusal> check_origin(const AdminRequest& request,
                                         const std::vector<std::string>& hosts) {
  if (!is_known_host(request.host, hosts, false)) {
    return AdminRefusal{403,
                        "the API takes requests by address, as localhost, or by a name that "
                        "admin.hosts lists"};
  }
  // A browser sends these where it sends no Origin. A link on another site's page may be followed.
  const bool embedded = request.field("sec-fetch-site") == "cross-site" &&
                        request.field("sec-fetch-mode") != "navigate";
  if (embedded || !is_same_origin(request, request.field("origin"))) {
    return AdminRefusal{403, "a request from a page of another origin is refused"};
  }
  return std::nullopt;
}

std::optional<AdminRefusal> authorize_change(const AdminRequest& request,
                                             const AdminConfig& admin) {
  // A browser sends these where it sends no Origin: a link on another site's page may read, but
  // never change anything.
  const auto site = request.field("sec-fetch-site");
  const bool same_site = !site || *site == "same-origin" || *site == "none";
  if (!same_site || !is_same_origin(request, request.field("referer"))) {
    return AdminRefusal{403, "a change requested by another site's page is refused"};
  }
  const bool local = is_loopback_client(request);
  if (local && admin.token_for == TokenFor::remote_changes) return std::nullopt;
  if (admin.token_file.empty()) {
    return AdminRefusal{403,
                        "changes are accepted from this machine only, or with a token where the "
                        "file names one in admin.token_file"};
  }
  return check_token(request, admin.token_file,
                     local ? "changes need authorization: Bearer TOKEN"
                           : "changes from another machine need authorization: Bearer TOKEN");
}

std::optional<AdminRefusal> authorize_read(const AdminRequest& request, const AdminConfig& admin) {
  if (admin.token_for != TokenFor::all) return std::nullopt;
  return check_token(request, admin.token_file, "this needs authorization: Bearer TOKEN");
}

bool carries_token(const AdminRequest& request, const std::string& token_file) {
  return !token_file.empty() && !check_token(request, token_file, "");
}

}  // namespace evenkeel
