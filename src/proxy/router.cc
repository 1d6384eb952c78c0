#include "evenkeel/proxy/router.h"

#include <algorithm>
#include <array>

#include "evenkeel/base/hex.h"
#include "evenkeel/http/grpc.h"
#include "proxy/route_index.h"

namespace evenkeel {
namespace {

/// Rules up to which trying each in turn takes no longer than a look into the index.
constexpr std::size_t max_rules_without_index = 32;

bool unreserved(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' ||
         c == '.' || c == '_' || c == '~';
}

Error bad_path(const char* detail) {
  return {.fault = Fault::bad_request, .side = Side::client, .detail = detail};
}

/// Undoes the encoding of unreserved characters.
Result<std::string> decode(std::string_view path) {
  std::string decoded;
  decoded.reserve(path.size());
  for (std::size_t i = 0; i < path.size(); ++i) {
    if (path[i] != '%') {
      decoded += path[i];
      continue;
    }
    const int high = i + 2 < path.size() ? hex_value(path[i + 1]) : -1;
    const int low = i + 2 < path.size() ? hex_value(path[i + 2]) : -1;
    if (high < 0 || low < 0) return bad_path("the path holds a broken percent-encoding");
    const char c = static_cast<char>(high * 16 + low);
    if (c == '\0') return bad_path("the path holds an encoded zero byte");
    if (unreserved(c)) {
      decoded += c;
    } else {
      decoded += '%';
      decoded += path[i + 1];
      decoded += path[i + 2];
    }
    i += 2;
  }
  return decoded;
}

std::string_view next_segment(std::string_view& rest) {
  const auto slash = rest.find('/');
  const std::string_view segment = rest.substr(0, slash);
  rest = slash == std::string_view::npos ? std::string_view() : rest.substr(slash + 1);
  return segment;
}

std::string_view host_of(std::string_view authority) {
  for (std::size_t at = authority.size(); at > 0; --at) {
    const char c = authority[at - 1];
    if (c == ':') return {authority.data(), at - 1};
    if (c == ']') break;  // of an IPv6 address, whose colons begin no port
  }
  return authority;
}

bool host_matches(std::string_view pattern, std::string_view authority) {
  const std::string_view host = host_of(authority);
  if (!pattern.starts_with("*.")) return equals_ignore_case(pattern, host);
  const std::string_view suffix = pattern.substr(1);
  return host.size() > suffix.size() &&
         equals_ignore_case(host.substr(host.size() - suffix.size()), suffix);
}

/// The request is one of these gRPC calls.
bool is_one_of(const std::vector<std::string>& calls, const Request& request,
               std::string_view path) {
  if (request.method != "POST" || !is_grpc(request)) return false;
  return std::any_of(calls.begin(), calls.end(), [path](const std::string& call) {
    if (call.back() != '/') return path == call;
    return path.size() > call.size() && path.starts_with(call) &&
           path.find('/', call.size()) == std::string_view::npos;
  });
}

struct PathOfTarget {
  std::string_view path;  // without the query
  bool normal;            // nothing to decode, no empty segment, none that begins with a dot
};

/// The bytes that can end a path or keep it from being normal.
constexpr auto path_marks = [] {
  std::array<bool, 256> marks{};
  for (const char c : {'/', '%', '?'}) marks[static_cast<unsigned char>(c)] = true;
  return marks;
}();

PathOfTarget split_path(std::string_view target) {
  bool normal = true;
  const char* const begin = target.data();
  const char* const end = begin + target.size();
  const char* at = begin;
  for (; at != end; ++at) {
    if (!path_marks[static_cast<unsigned char>(*at)]) [[likely]]
      continue;
    if (*at == '?') break;
    const bool slash = *at == '/';
    normal &= slash && (at + 1 == end || (at[1] != '/' && at[1] != '.'));
  }
  return {{begin, static_cast<std::size_t>(at - begin)}, normal};
}

}  // namespace

Result<std::string_view> normalised_path(std::string_view target, std::string& storage) {
  const auto [path, normal] = split_path(target);
  if (normal) return path;
  auto decoded = decode(path);
  if (!decoded) return std::move(decoded.error());

  std::vector<std::string_view> segments;
  std::string_view rest = std::string_view(*decoded).substr(1);
  bool directory = false;
  while (true) {
    const bool last = rest.find('/') == std::string_view::npos;
    const std::string_view segment = next_segment(rest);
    directory = segment.empty() || segment == "." || segment == "..";
    if (segment == "..") {
      if (segments.empty()) return bad_path("the path climbs above its root");
      segments.pop_back();
    } else if (!segment.empty() && segment != ".") {
      segments.push_back(segment);
    }
    if (last) break;
  }
  storage.clear();
  for (const std::string_view segment : segments) storage.append("/").append(segment);
  if (storage.empty() || directory) storage += '/';
  return std::string_view(storage);
}

PathPattern::PathPattern(std::string_view pattern) {
  any_ = pattern.empty() || pattern == "/**";
  if (pattern.find('*') == std::string_view::npos) {
    exact_ = pattern;
    return;
  }
  std::string_view rest = pattern.substr(1);
  while (true) {
    const bool last = rest.find('/') == std::string_view::npos;
    const std::string_view segment = next_segment(rest);
    if (last && segment == "**") {
      open_ended_ = true;
    } else {
      segments_.emplace_back(segment);
    }
    if (last) break;
  }
}

bool PathPattern::matches(std::string_view path) const {
  if (any_) return true;
  if (!exact_.empty()) return path == exact_;
  if (!path.starts_with('/')) return false;
  std::string_view rest = path.substr(1);
  bool at_end = false;
  for (const std::string& wanted : segments_) {
    if (at_end) return false;
    at_end = rest.find('/') == std::string_view::npos;
    const std::string_view segment = next_segment(rest);
    if (wanted == "*" ? segment.empty() : segment != wanted) return false;
  }
  return at_end || open_ended_;
}

Router::Router(const std::vector<RouteConfig>& routes) {
  for (const RouteConfig& route : routes) {
    const RouteMatch& match = route.match;
    Rule rule{.host = match.host, .methods = match.method};
    if (!match.path.empty() && match.path != "/**") rule.path.emplace(match.path);
    for (const auto& [name, value] : match.header) rule.fields.emplace_back(name, value);
    for (const std::string& call : match.grpc) {
      const bool whole_service = call.find('/') == std::string::npos;
      rule.calls.push_back('/' + call + (whole_service ? "/" : ""));
    }
    rule.always = rule.host.empty() && !rule.path && rule.fields.empty() && rule.methods.empty() &&
                  rule.calls.empty();
    rules_.push_back(std::move(rule));
  }
  if (rules_.size() <= max_rules_without_index) return;
  auto index = std::make_shared<RouteIndex>();
  for (std::uint32_t i = 0; i < routes.size(); ++i) index->add(i, routes[i].match);
  index_ = std::move(index);
}

bool Router::Rule::matches(const Request& request, std::string_view path_text) const {
  if (always) return true;
  if (!host.empty() && !host_matches(host, request.authority)) return false;
  if (path && !path->matches(path_text)) return false;
  if (!methods.empty() &&
      std::find(methods.begin(), methods.end(), request.method) == methods.end()) {
    return false;
  }
  if (!calls.empty() && !is_one_of(calls, request, path_text)) return false;
  return std::all_of(fields.begin(), fields.end(), [&](const auto& wanted) {
    // `host` is not a field of the request, but rules may name it.
    if (wanted.first == "host") return request.authority == wanted.second;
    return std::any_of(request.fields.begin(), request.fields.end(), [&](const Field& field) {
      return field.value() == wanted.second && equals_ignore_case(field.name(), wanted.first);
    });
  });
}

std::optional<std::size_t> Router::first_match(const Request& request,
                                               std::string_view path) const {
  const auto matches = [&](std::size_t rule) { return rules_[rule].matches(request, path); };
  const std::string_view host = host_of(request.authority);
  std::array<char, 256> lower;
  if (index_ == nullptr || host.size() > lower.size()) {
    for (std::size_t rule = 0; rule < rules_.size(); ++rule) {
      if (matches(rule)) return rule;
    }
    return std::nullopt;
  }
  std::transform(host.begin(), host.end(), lower.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c; });
  return index_->lowest({lower.data(), host.size()}, path, matches);
}

Result<std::size_t> Router::route(const Request& request) const {
  std::string storage;
  auto path = normalised_path(request.path, storage);
  if (!path) return std::move(path.error());
  if (const auto found = first_match(request, *path)) return *found;
  return Error{.fault = Fault::no_route,
               .side = Side::client,
               .detail = "no route for this host, path and method"};
}

}  // namespace evenkeel
