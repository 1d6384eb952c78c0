#include "evenkeel/upstream/redirect.h"

#include <algorithm>

#include "evenkeel/base/host.h"

namespace evenkeel {
namespace {

constexpr std::string_view secure_scheme = "https:";
constexpr std::string_view clear_scheme = "http:";

bool is_redirect(int status) {
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

/// True if the text may stand in a request line.
bool is_target(std::string_view text) {
  return std::ranges::all_of(text, [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte > 0x20 && byte < 0x7f;
  });
}

/// `reference`, without scheme and authority, as seen from `target` (RFC 3986 5.2).
std::string resolved(std::string_view target, std::string_view reference) {
  const std::string_view path = target.substr(0, target.find('?'));
  if (reference.starts_with('/')) return std::string(reference);
  if (reference.starts_with('?')) return std::string(path).append(reference);
  std::string_view folder = path.substr(0, path.rfind('/') + 1);
  while (true) {
    if (reference.starts_with("./")) {
      reference.remove_prefix(2);
    } else if (reference.starts_with("../")) {
      reference.remove_prefix(3);
      const auto above = folder.size() < 2 ? folder.npos : folder.rfind('/', folder.size() - 2);
      if (above != folder.npos) folder = folder.substr(0, above + 1);
    } else {
      break;
    }
  }
  return std::string(folder).append(reference);
}

}  // namespace

std::string_view path_at(std::string_view authority, std::string_view url) {
  const bool secure = starts_with_ignore_case(url, secure_scheme);
  if (!secure && !starts_with_ignore_case(url, clear_scheme)) return {};
  url.remove_prefix(secure ? secure_scheme.size() : clear_scheme.size());
  if (!url.starts_with("//")) return {};
  url.remove_prefix(2);
  const std::string_view named = url.substr(0, url.find_first_of("/?#"));
  if (normal_authority(named, secure) != normal_authority(authority, secure)) return {};
  url.remove_prefix(named.size());
  return url.empty() ? "/" : url;
}

std::string redirected_target(const Request& request, const Response& response) {
  if (request.method != "GET" || !is_redirect(response.status)) return {};
  std::string_view location = response.fields.value("location").value_or("");
  location = location.substr(0, location.find('#'));
  std::string url(location);
  if (location.starts_with("//")) url = std::string(request.scheme) + ":" + url;
  std::string target;
  if (starts_with_ignore_case(url, secure_scheme) || starts_with_ignore_case(url, clear_scheme)) {
    const std::string_view scheme = std::string_view(url).substr(0, url.find(':'));
    if (!equals_ignore_case(scheme, request.scheme)) return {};
    target = path_at(request.authority, url);
    if (target.starts_with('?')) target.insert(0, "/");
  } else if (!location.empty() && location.substr(0, location.find('/')).find(':') == url.npos) {
    target = resolved(request.path, location);
  }
  return is_target(target) ? target : std::string();
}

std::string describe_status(int status, std::string_view location) {
  constexpr std::size_t max_shown = 200;
  std::string text = "status " + std::to_string(status);
  if (location.empty() || !is_target(location)) return text;
  const std::string_view shown = location.substr(0, location.find_first_of("?#"));
  text.append(", Location ").append(shown.substr(0, max_shown));
  if (shown.size() < location.size()) text.append("?...");
  return text;
}

}  // namespace evenkeel
