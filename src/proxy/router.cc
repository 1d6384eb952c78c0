#include "evenkeel/proxy/router.h"

#include <fmt/format.h>

#include <algorithm>

#include "evenkeel/base/glob.h"
#include "evenkeel/base/host.h"
#include "evenkeel/base/path.h"
#include "evenkeel/base/query.h"
#include "evenkeel/base/regex.h"
#include "evenkeel/filter/forwarding_headers.h"
#include "evenkeel/http/cors.h"
#include "evenkeel/http/grpc.h"
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

/// True if the request is one of these gRPC calls.
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
std::optional<InferenceApi> api_of(const Request& request, std::string_view path) {
  if (!request.upgrade.empty()) return std::nullopt;
  RequestHead head = head_of(request, path);
  if (const auto api = inference_api_of(head)) return api;
  std::string storage;
  head.path = with_decoded_slashes(path, storage);
  return inference_api_of(head);
}

/// What the head of a request says to conditions on its body.
struct HeadClaims {
  bool has_body = false;     // that is read
  bool needs_model = false;  // it has no body, but its API wants one with a model
  std::string model;         // without a body: as its path or its query names it

  /// True if a request without a body may meet `wanted`: only the condition on the model can fail.
  /// `strict`: it may not without a model, as for a route that answers itself.
  bool meet(const BodyMatch& wanted, bool strict) const {
    if (strict && model.empty()) return false;
    if (!wanted.depends_on_model()) return true;
    return model.empty() ? !needs_model : wanted.takes_model(model);
  }
};

/// `path` is normalised. `has_body`: it has one, which may be read.
HeadClaims claims_of(const Request& request, std::string_view path, bool has_body) {
  const auto api = api_of(request, path);
  if (api && has_body) return {.has_body = true, .needs_model = false, .model = {}};
  HeadClaims claims{.has_body = false, .needs_model = api && needs_body(*api), .model = {}};
  // Preflights are for all that a page may ask for.
  if (request.method == "OPTIONS") return claims;
  claims.model = model_in_path(request.method, path);
  if (claims.model.empty()) claims.model = model_in_query(request.path);
  return claims;
}

constexpr const char* other_fields_wanted = "those with its host and path want other header fields";
constexpr const char* unmet_by_body = "none takes what its body asks for";
constexpr const char* no_host_and_path = "none has this host and path";
constexpr const char* other_conditions =
    "those with its host and path have conditions that it does not meet: `evenkeel ctl explain` "
    "names them";

/// Text of a client that goes into a message.
std::string_view shortened(std::string_view text) {
  constexpr std::size_t max = 200;
  return text.substr(0, max);
}

Error refused(Fault fault, std::string detail) {
  return {.fault = fault, .side = Side::client, .detail = std::move(detail)};
}

/// Why a request has no model that routes could match.
Error no_model(const Request& request) {
  const InferenceInfo* const info = request.info.inference.get();
  if (info != nullptr && info->request.model_mistyped) {
    return refused(Fault::bad_request, "the `model` of the request is no string");
  }
  const std::string_view encoding = request.fields.value(FieldId::content_encoding).value_or("");
  if (encoding.empty() || is_read_encoding(encoding)) {
    return refused(Fault::bad_request, "the request names no model");
  }
  return refused(Fault::bad_request,
                 fmt::format("the request names no model that can be read: its content-encoding "
                             "`{}` is not gzip, deflate or zstd",
                             shortened(encoding)));
}

/// What conditions on bodies are compared with.
std::string conditions_text(const InferenceInfo* info) {
  if (info == nullptr) return {};
  const InferenceRequest& asked = info->request;
  return fmt::format(" (task {}, about {} prompt tokens, max_tokens {})", to_string(asked.task),
                     asked.estimated_prompt_tokens,
                     asked.max_tokens ? std::to_string(*asked.max_tokens) : "not given");
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

/// Conditions that few routes have.
struct Router::RareConditions {
  std::optional<Regex> path;
  std::vector<std::pair<std::string, std::string>> query;  // names, and globs of values
  std::vector<Network> clients;
  std::vector<std::string> listeners;
  std::vector<Rule> excluded;
  const std::vector<ListenerConfig>* all_listeners;

  Mismatch mismatch_of(const Request& request, std::string_view path_text) const {
    if (!query.empty() && !has_query(request)) return Mismatch::query;
    if (!listeners.empty() &&
        std::ranges::find(listeners, request.info.identity.listener) == listeners.end()) {
      return Mismatch::listener;
    }
    if (!clients.empty() && !has_client(request)) return Mismatch::client;
    // Servers that decode a path before they route it see a slash in `%2F`.
    std::string storage;
    const std::string_view decoded = with_decoded_slashes(path_text, storage);
    const bool is_excluded = std::ranges::any_of(excluded, [&](const Rule& rule) {
      return rule.matches(request, path_text) ||
             (decoded != path_text && rule.matches(request, decoded));
    });
    return is_excluded ? Mismatch::excluded : Mismatch::none;
  }

 private:
  bool has_query(const Request& request) const {
    return std::ranges::all_of(query, [&](const auto& wanted) {
      return any_parameter(request.path, [&](std::string_view name, std::string_view value) {
        return name == wanted.first && matches_glob(wanted.second, value);
      });
    });
  }
  bool has_client(const Request& request) const {
    const auto client = client_of(request, all_listeners);
    return client && std::ranges::any_of(clients, [&](const Network& network) {
             return network.contains(*client);
           });
  }
};

Router::Rule Router::rule_of(const RouteMatch& match,
                             const std::vector<ListenerConfig>* listeners) {
  Rule rule{.host = match.host, .methods = match.method};
  if (!match.path.empty() && match.path != "/**") rule.path.emplace(match.path);
  for (const auto& [name, value] : match.header) rule.fields.emplace_back(name, value);
  for (const std::string& call : match.grpc) {
    const bool whole_service = call.find('/') == std::string::npos;
    rule.calls.push_back('/' + call + (whole_service ? "/" : ""));
  }
  if (match.has_rare_conditions()) {
    auto rare = std::make_shared<RareConditions>();
    if (!match.path_regex.empty()) rare->path.emplace(match.path_regex);
    rare->query.assign(match.query.begin(), match.query.end());
    rare->clients = match.client;
    rare->listeners = match.listener;
    for (const RouteMatch& each : match.none_of) {
      rare->excluded.push_back(rule_of(each, listeners));
    }
    rare->all_listeners = listeners;
    rule.rare = std::move(rare);
  }
  rule.has_details = !rule.fields.empty() || rule.rare != nullptr;
  rule.always = rule.host.empty() && !rule.path && !rule.has_details && rule.methods.empty() &&
                rule.calls.empty();
  return rule;
}

Router::Router(const std::vector<RouteConfig>& routes,
               const std::vector<ListenerConfig>* listeners) {
  for (const RouteConfig& route : routes) {
    Rule& rule = rules_.emplace_back(rule_of(route.match, listeners));
    rule.responds = route.answers_itself();
    rule.answers_preflights = route.cors.has_value();
    if (route.match.looks_into_body()) rule.body = std::make_shared<const BodyMatch>(route.match);
  }
  if (rules_.size() <= max_rules_without_index) return;
  auto index = std::make_shared<RouteIndex>();
  for (std::uint32_t i = 0; i < routes.size(); ++i) index->add(i, routes[i].match);
  index_ = std::move(index);
}

inline bool Router::Rule::has_host(const Request& request) const {
  return host.empty() || host_matches(host, request.authority);
}

inline bool Router::Rule::has_path(const Request& request, std::string_view path_text) const {
  if (path && !path->matches(path_text)) return false;
  return calls.empty() || is_one_of(calls, request, path_text);
}

inline bool Router::Rule::has_method(const Request& request) const {
  const auto takes = [this](std::string_view method) {
    return std::find(methods.begin(), methods.end(), method) != methods.end();
  };
  if (methods.empty() || takes(request.method)) return true;
  return answers_preflights && takes(preflighted_method(request));
}

bool Router::Rule::matches(const Request& request, std::string_view path_text) const {
  if (always) return true;
  return has_host(request) && has_path(request, path_text) && has_method(request) &&
         has_details_of(request, path_text);
}

Mismatch Router::Rule::mismatch_in_details(const Request& request,
                                           std::string_view path_text) const {
  if (rare != nullptr && rare->path && !rare->path->matches(path_text)) return Mismatch::path;
  if (!has_fields(request)) return Mismatch::header;
  return rare == nullptr ? Mismatch::none : rare->mismatch_of(request, path_text);
}

inline bool Router::Rule::has_fields(const Request& request) const {
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

/// The lowest rule from `first` on for which `matches(number)` holds. `path` is normalised. With an
/// index, not all rules are tried.
template <class Matches>
std::optional<std::size_t> Router::lowest(const Request& request, std::string_view path,
                                          const Matches& matches, std::size_t first) const {
  if (index_ != nullptr) {
    return index_->lowest(host_of(request.authority), path,
                          [&](std::size_t rule) { return rule >= first && matches(rule); });
  }
  for (std::size_t rule = first; rule < rules_.size(); ++rule) {
    if (matches(rule)) return rule;
  }
  return std::nullopt;
}

/// `body_matches(number, path)`: whether the conditions on the body of the rule with that number
/// hold, or may hold. Nothing also for a path that cannot be normalised.
template <class BodyMatches>
std::optional<std::size_t> Router::first_match(const Request& request,
                                               const BodyMatches& body_matches,
                                               std::size_t first) const {
  std::string storage;
  const auto normalised = normalised_path(request.path, storage);
  if (!normalised) return std::nullopt;
  const std::string_view path = *normalised;
  return lowest(
      request, path,
      [&](std::size_t i) {
        const Rule& rule = rules_[i];
        return rule.matches(request, path) && (rule.body == nullptr || body_matches(i, path));
      },
      first);
}

std::optional<RouteChoice> Router::route(const Request& request) const {
  std::optional<HeadClaims> claims;
  const auto found = first_match(request, [&](std::size_t i, std::string_view path) {
    if (!claims) claims = claims_of(request, path, request.body != nullptr);
    return claims->has_body || claims->meet(*rules_[i].body, rules_[i].responds);
  });
  if (!found) return std::nullopt;
  return RouteChoice{.index = *found,
                     .needs_body = rules_[*found].body != nullptr && claims->has_body};
}

std::optional<std::size_t> Router::route_inspected(const Request& request,
                                                   std::size_t first) const {
  std::optional<HeadClaims> claims;
  const auto body_matches = [&](std::size_t i, std::string_view path) {
    const BodyMatch& wanted = *rules_[i].body;
    const InferenceInfo* const info = request.info.inference.get();
    if (info != nullptr && !info->is_empty) return wanted.matches(info->request, info->rest_unread);
    if (!claims) claims = claims_of(request, path, false);
    return claims->meet(wanted, rules_[i].responds);
  };
  return first_match(request, body_matches, first);
}

std::optional<std::size_t> Router::first_by_head(
    const Request& request, const std::function<bool(std::size_t)>& accepts) const {
  std::string storage;
  const auto path = normalised_path(request.path, storage);
  if (!path) return std::nullopt;
  const InferenceInfo* const info = request.info.inference.get();
  const std::string model = info != nullptr
                                ? info->request.model
                                : claims_of(request, *path, request.body != nullptr).model;
  return lowest(request, *path, [&](std::size_t i) {
    const Rule& rule = rules_[i];
    const bool takes_model = model.empty() || rule.body == nullptr || rule.body->takes_model(model);
    return takes_model && rule.matches(request, *path) && accepts(i);
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

std::string_view to_string(Mismatch mismatch) {
  switch (mismatch) {
    case Mismatch::none: return "none";
    case Mismatch::host: return "host";
    case Mismatch::path: return "path";
    case Mismatch::header: return "header";
    case Mismatch::query: return "query";
    case Mismatch::client: return "client";
    case Mismatch::listener: return "listener";
    case Mismatch::excluded: return "not";
    case Mismatch::method: return "method";
    case Mismatch::body: return "body";
  }
  return "unknown";
}

std::vector<Mismatch> Router::mismatches(const Request& request) const {
  std::string storage;
  const auto normalised = normalised_path(request.path, storage);
  if (!normalised) return std::vector<Mismatch>(rules_.size(), Mismatch::path);
  const std::string_view path = *normalised;
  const InferenceInfo* const info = request.info.inference.get();
  const auto mismatch_of = [&](const Rule& rule) {
    if (!rule.has_host(request)) return Mismatch::host;
    if (!rule.has_path(request, path)) return Mismatch::path;
    const Mismatch details = rule.mismatch_in_details(request, path);
    if (details != Mismatch::none) return details;
    if (!rule.has_method(request)) return Mismatch::method;
    const bool takes_body =
        rule.body == nullptr ||
        (info != nullptr ? rule.body->matches(info->request, info->rest_unread)
                         : claims_of(request, path, false).meet(*rule.body, rule.responds));
    return takes_body ? Mismatch::none : Mismatch::body;
  };
  std::vector<Mismatch> mismatches;
  for (const Rule& rule : rules_) mismatches.push_back(mismatch_of(rule));
  return mismatches;
}

/// The first thing that is wrong with the request counts: its body where a route would take it by
/// its head, its method where one would take it by the rest.
RouteRefusal Router::refusal_of(const Request& request) const {
  std::string storage;
  auto normalised = normalised_path(request.path, storage);
  if (!normalised) return {.error = std::move(normalised.error())};
  const std::string_view path = *normalised;
  const InferenceInfo* const info = request.info.inference.get();
  const std::string model =
      info != nullptr ? info->request.model : claims_of(request, path, false).model;

  bool has_host = false;
  bool has_path = false;
  bool only_fields = true;  // of their details, they look at header fields alone
  bool has_head = false;
  bool depends_on_model = false;
  bool takes_model = false;
  std::vector<std::string_view> methods;  // that routes for the rest of its head take
  lowest(request, path, [&](std::size_t i) {
    const Rule& rule = rules_[i];
    if (!rule.has_host(request)) return false;
    has_host = true;
    if (!rule.has_path(request, path)) return false;
    const Mismatch details = rule.mismatch_in_details(request, path);
    if (details == Mismatch::path) return false;
    has_path = true;
    only_fields &= rule.rare == nullptr;
    if (details != Mismatch::none) return false;
    if (rule.has_method(request)) {
      has_head = true;
      depends_on_model |= rule.body->depends_on_model();
      takes_model |= rule.body->takes_model(model);
      return false;
    }
    for (const std::string& method : rule.methods) {
      if (std::ranges::find(methods, method) == methods.end()) methods.push_back(method);
    }
    return false;
  });

  if (has_head && depends_on_model && model.empty()) return {.error = no_model(request)};
  if (has_head && !takes_model) {
    return {.error = refused(Fault::model_not_found, ""), .allow = {}, .model = model};
  }
  const std::string no_route =
      fmt::format("no route for {} {} of host {}: ", shortened(request.method), shortened(path),
                  request.authority.empty() ? "(none)" : shortened(request.authority));
  if (has_head)
    return {.error = refused(Fault::no_route, no_route + unmet_by_body + conditions_text(info))};
  if (!methods.empty()) {
    const std::string allow = fmt::format("{}", fmt::join(methods, ", "));
    return {.error = refused(Fault::method_not_allowed, no_route + "there, routes take " + allow),
            .allow = allow};
  }
  const char* const reason = has_path ? (only_fields ? other_fields_wanted : other_conditions)
                             : !has_host
                                 ? (index_ == nullptr ? "none has this host" : no_host_and_path)
                             : is_grpc(request) ? "none with its host takes this call"
                                                : "none with its host has this path";
  return {.error = refused(Fault::no_route, no_route + reason)};
}

}  // namespace evenkeel
