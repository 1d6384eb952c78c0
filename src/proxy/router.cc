#include "evenkeel/proxy/router.h"

#include <algorithm>
#include <array>

#include "evenkeel/base/host.h"
#include "evenkeel/http/grpc.h"
#include "evenkeel/http/path.h"
#include "evenkeel/inference/request_reader.h"
#include "proxy/body_match.h"
#include "proxy/route_index.h"

namespace evenkeel {
namespace {

/// Rules up to which trying each in turn takes no longer than a look into the index.
constexpr std::size_t max_rules_without_index = 32;

bool host_matches(std::string_view pattern, std::string_view authority) {
  std::string storage;
  const std::string_view host = normal_host(host_of(authority), storage);
  if (!pattern.starts_with("*.")) return host == pattern;
  const std::string_view suffix = pattern.substr(1);
  return host.size() > suffix.size() && host.ends_with(suffix);
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

/// `path` is normalised.
bool has_readable_body(const Request& request, std::string_view path) {
  if (request.body == nullptr || !request.upgrade.empty()) return false;
  RequestHead head{.method = request.method,
                   .path = path,
                   .content_type = {},
                   .content_encoding = {},
                   .inference_header_length = {},
                   .is_grpc = is_grpc(request)};
  if (inference_api_of(head)) return true;
  std::string storage;
  head.path = with_decoded_slashes(path, storage);
  return inference_api_of(head).has_value();
}

}  // namespace

PathPattern::PathPattern(std::string_view pattern) {
  any_ = pattern.empty() || pattern == "/**";
  if (pattern.find('*') == std::string_view::npos) {
    exact_ = pattern;
    return;
  }
  std::string_view rest = pattern.substr(1);
  while (true) {
    const bool last = rest.find('/') == std::string_view::npos;
    const std::string_view segment = next_path_segment(rest);
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
    const std::string_view segment = next_path_segment(rest);
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
    if (match.looks_into_body()) rule.body = std::make_shared<const BodyMatch>(match);
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
    if (wanted.first == "host") {
      const bool secure = request.info.identity.secure;
      return normal_authority(request.authority, secure) == normal_authority(wanted.second, secure);
    }
    return std::any_of(request.fields.begin(), request.fields.end(), [&](const Field& field) {
      return field.value() == wanted.second && equals_ignore_case(field.name(), wanted.first);
    });
  });
}

/// `body_matches(number, path)`: whether the conditions on the body of the rule with that number
/// hold, or may hold.
template <class BodyMatches>
Result<std::size_t> Router::first_match(const Request& request,
                                        const BodyMatches& body_matches) const {
  std::string storage;
  auto normalised = normalised_path(request.path, storage);
  if (!normalised) return std::move(normalised.error());
  const std::string_view path = *normalised;
  const auto matches = [&](std::size_t i) {
    const Rule& rule = rules_[i];
    return rule.matches(request, path) && (rule.body == nullptr || body_matches(i, path));
  };
  const std::string_view host = host_of(request.authority);
  std::array<char, 256> lower;
  std::optional<std::size_t> found;
  if (index_ == nullptr || host.size() > lower.size()) {
    for (std::size_t rule = 0; rule < rules_.size() && !found; ++rule) {
      if (matches(rule)) found = rule;
    }
  } else {
    std::transform(host.begin(), host.end(), lower.begin(),
                   [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c; });
    found = index_->lowest({lower.data(), host.size()}, path, matches);
  }
  if (found) return *found;
  return Error{.fault = Fault::no_route,
               .side = Side::client,
               .detail = "no route for this host, path and method"};
}

Result<RouteChoice> Router::route(const Request& request) const {
  auto found = first_match(request, [&request](std::size_t, std::string_view path) {
    return has_readable_body(request, path);
  });
  if (!found) return std::move(found.error());
  return RouteChoice{.index = *found, .needs_body = rules_[*found].body != nullptr};
}

Result<std::size_t> Router::route_inspected(const Request& request) const {
  const InferenceInfo* const info = request.info.inference.get();
  return first_match(request, [this, info](std::size_t i, std::string_view) {
    return info != nullptr && rules_[i].body->matches(info->request, info->rest_unread);
  });
}

PossibleRoutes Router::possible_routes(const Request& request) const {
  using Verdict = BodyMatch::Verdict;
  const InferenceRequest& asked = request.info.inference->request;
  PossibleRoutes possible;
  const auto last = first_match(request, [&](std::size_t i, std::string_view) {
    const Verdict verdict = rules_[i].body->judge(asked);
    if (verdict == Verdict::yes && !rules_[i].body->depends_on_size()) return true;
    if (verdict != Verdict::no) possible.routes.push_back(i);
    return false;
  });
  // With an index, they are not visited in order.
  std::ranges::sort(possible.routes);
  const auto repeated = std::ranges::unique(possible.routes);
  possible.routes.erase(repeated.begin(), repeated.end());
  if (last) {
    std::erase_if(possible.routes, [&](std::size_t i) { return i > *last; });
    possible.routes.push_back(*last);
  }
  possible.open = std::ranges::any_of(possible.routes, [&](std::size_t i) {
    return rules_[i].body != nullptr && rules_[i].body->judge(asked) == Verdict::open;
  });
  return possible;
}

bool Router::takes_model(const Request& request, std::string_view model) const {
  return first_match(request,
                     [this, model](std::size_t i, std::string_view) {
                       return rules_[i].body->takes_model(model);
                     })
      .ok();
}

}  // namespace evenkeel
