#include "import/redirects.h"

#include <algorithm>

#include "evenkeel/base/ascii.h"

namespace evenkeel::import {
namespace {

constexpr std::string_view open_end = "/**";

bool redirects(int status) {
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

/// True for what may stand in a URL and means nothing else in ours.
bool is_plain(std::string_view text) {
  constexpr std::string_view others = "-._~!&'()+,;=:@/?%[]";
  return std::ranges::all_of(
      text, [&](char c) { return is_letter_or_digit(c) || others.find(c) != others.npos; });
}

/// Scheme, host and, in front of the rest, the path that the route has matched: what the whole
/// path of a request becomes behind `base`. Nothing: `path` is one of other paths.
std::optional<std::string> with_whole_path(std::string base, std::string_view path) {
  if (path.empty()) return base.append(open_end);
  if (path.find('*') == path.npos) return base.append(path);
  if (!path.ends_with(open_end)) return std::nullopt;
  if (path.find('*') + 2 != path.size()) return std::nullopt;
  return base.append(path);
}

/// Cuts `end` off; false if the text does not end in it.
bool cut(std::string_view& text, std::string_view end) {
  if (!text.ends_with(end)) return false;
  text.remove_suffix(end.size());
  return true;
}

/// A target that requests do not add their query to.
std::string without_query(std::string_view target) {
  const std::size_t scheme_end = target.find("://");
  const bool has_path =
      scheme_end == target.npos || target.find('/', scheme_end + 3) != target.npos;
  return std::string(target).append(has_path ? "?" : "/?");
}

std::optional<RedirectConfig> checked(std::optional<std::string> to, int status) {
  if (!to || !redirects(status)) return std::nullopt;
  return RedirectConfig{.to = std::move(*to), .status = status};
}

/// True for a path, or a URL whose host may be the client's.
bool is_target(std::string_view text) {
  if (text.starts_with('/')) return !text.starts_with("//") && is_plain(text);
  for (const std::string_view scheme : {"https://", "http://"}) {
    if (!text.starts_with(scheme)) continue;
    text.remove_prefix(scheme.size());
    constexpr std::string_view host = "$host";
    if (text.starts_with(host)) {
      text.remove_prefix(host.size());
      return (text.empty() || text.starts_with('/') || text.starts_with(':')) && is_plain(text);
    }
    return !text.empty() && !text.starts_with('/') && is_plain(text);
  }
  return false;
}

}  // namespace

std::optional<RedirectConfig> nginx_redirect(std::string_view url, int status,
                                             std::string_view path) {
  std::string text(url);
  constexpr std::string_view with_port = "$http_host";
  if (const std::size_t at = text.find(with_port); at != text.npos)
    text.replace(at, with_port.size(), "$host");
  std::string_view base = text;
  const bool is_whole = cut(base, "$request_uri") || cut(base, "$uri$is_args$args");
  const bool keeps_query = is_whole || cut(base, "$is_args$args") || cut(base, "?$args");
  if (is_whole && base.find('/', base.find("://") + 3) != base.npos) return std::nullopt;
  if (!is_target(base)) return std::nullopt;
  if (is_whole) return checked(with_whole_path(std::string(base), path), status);
  return checked(keeps_query ? std::string(base) : without_query(base), status);
}

std::optional<RedirectConfig> haproxy_redirect(std::string_view kind, std::string_view url,
                                               int code, bool keeps_query, std::string_view path) {
  // `%[path]` and `%%`: made of the request.
  if (!is_target(url) || url.find_first_of("$%") != url.npos) return std::nullopt;
  if (kind == "location") return checked(keeps_query ? std::string(url) : without_query(url), code);
  if (kind != "prefix") return std::nullopt;
  while (cut(url, "/")) {
  }
  return checked(with_whole_path(std::string(url), path), code);
}

}  // namespace evenkeel::import
