#include "import/paths.h"

#include <algorithm>

#include "evenkeel/base/ascii.h"
#include "evenkeel/base/regex.h"
#include "evenkeel/base/utf8.h"

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

constexpr std::size_t max_regex = 1'000;

/// True for a path that is compared letter by letter, in our files and in nginx's.
bool is_literal_path(std::string_view text) {
  constexpr std::string_view others = "-._~/";
  return text.starts_with('/') && text.size() < max_regex && text.find("//") == text.npos &&
         text.find("/.") == text.npos &&
         std::ranges::all_of(
             text, [&](char c) { return is_letter_or_digit(c) || others.find(c) != others.npos; });
}

/// The regular expression that matches this path alone.
std::string quoted(std::string_view path) {
  std::string text;
  for (const char c : path)
    text += c == '.' || c == '~' ? std::string("\\") + c : std::string(1, c);
  return text;
}

/// True if the last character is no letter of its own, but an operator.
bool ends_in(std::string_view regex, char last) {
  if (!regex.ends_with(last)) return false;
  regex.remove_suffix(1);
  const std::size_t text = regex.find_last_not_of('\\');
  return (regex.size() - (text == regex.npos ? 0 : text + 1)) % 2 == 0;
}

/// The text with `\1` in place of `$1`; nothing if it has another variable.
std::optional<std::string> replacement_of(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '\\' || text[at] == '?') return std::nullopt;
    if (text[at] != '$') {
      out += text[at];
      continue;
    }
    if (at + 1 == text.size() || text[at + 1] < '1' || text[at + 1] > '9') return std::nullopt;
    out += '\\';
  }
  return out;
}

}  // namespace

bool has_alternatives(std::string_view regex) {
  int depth = 0;
  for (std::size_t at = 0; at < regex.size(); ++at) {
    if (regex[at] == '\\')
      ++at;
    else if (regex[at] == '(')
      ++depth;
    else if (regex[at] == ')')
      --depth;
    else if (regex[at] == '|' && depth <= 0)
      return true;
  }
  return false;
}

std::optional<RewriteConfig> nginx_pass_rewrite(std::string_view location, bool is_exact,
                                                std::string_view uri) {
  if (uri.empty() || uri == location) return RewriteConfig{};
  if (!is_literal_path(location) || !is_literal_path(uri)) return std::nullopt;
  if (is_exact) return RewriteConfig{.regex = '^' + quoted(location) + '$', .to = std::string(uri)};
  const bool is_open = location.ends_with('/');
  // `location /a` and `http://host/`: nginx sends //x for /a/x, which no server means.
  if (is_open != uri.ends_with('/') && uri != "/") return std::nullopt;
  if (is_open) location.remove_suffix(1);
  if (uri.ends_with('/')) uri.remove_suffix(1);
  if (uri.empty()) return RewriteConfig{.strip_prefix = std::string(location)};
  if (location.empty()) return RewriteConfig{.regex = "^/", .to = std::string(uri) + '/'};
  return RewriteConfig{.prefix = std::string(uri)};
}

std::optional<RewriteConfig> nginx_rewrite(std::string_view regex, std::string_view replacement) {
  const bool is_whole = regex.starts_with('^') && !has_alternatives(regex) &&
                        (ends_in(regex, '$') || regex.ends_with("(.*)") ||
                         (regex.ends_with(".*") && !regex.ends_with("\\.*")));
  const auto to = replacement_of(replacement);
  if (!is_whole || !to || !to->starts_with('/') || regex.size() > max_regex) return std::nullopt;
  std::string_view prefix = regex.substr(1);
  if (prefix.ends_with('$')) prefix.remove_suffix(1);
  if (cut(prefix, "/(.*)") && is_literal_path(prefix) && prefix.find('.') == prefix.npos &&
      *to == "/\\1") {
    return RewriteConfig{.strip_prefix = std::string(prefix)};
  }
  const Regex expression(regex);
  if (!expression.problem().empty() || !expression.problem_of_replacement(*to).empty())
    return std::nullopt;
  return RewriteConfig{.regex = std::string(regex), .to = *to};
}

std::optional<std::string> path_regex_of(std::string_view regex, bool ignores_case) {
  if (regex.empty() || regex.size() > max_regex || printable_utf8(regex) != regex)
    return std::nullopt;
  std::string whole;
  if (has_alternatives(regex)) {
    whole = ".*(?:" + std::string(regex) + ").*";
  } else {
    const bool begins = regex.starts_with('^');
    const bool ends = ends_in(regex, '$');
    if (begins) regex.remove_prefix(1);
    if (ends && !regex.empty()) regex.remove_suffix(1);
    whole = (begins ? "" : ".*") + std::string(regex) + (ends ? "" : ".*");
  }
  if (ignores_case) whole.insert(0, "(?i)");
  if (!Regex(whole).problem().empty()) return std::nullopt;
  return whole;
}

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
