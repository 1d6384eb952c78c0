#include "evenkeel/filter/path_rewrite.h"

#include <algorithm>

#include "evenkeel/base/path.h"
#include "evenkeel/base/query.h"

namespace evenkeel {
namespace {

Error bad_path(const char* detail) {
  return {.fault = Fault::bad_request, .side = Side::client, .detail = detail};
}

/// True if a server that decodes all of the path before it splits it sees a dot segment. `path` is
/// normalised.
bool hides_dot_segments(std::string_view path) {
  if (path.find_first_of("%\\") == std::string_view::npos) return false;
  std::string decoded = percent_decoded(path);
  std::ranges::replace(decoded, '\\', '/');
  std::string_view rest = decoded;
  while (!rest.empty()) {
    const std::string_view segment = next_path_segment(rest);
    if (segment == "." || segment == "..") return true;
  }
  return false;
}

/// Restores the client's path when the handlers behind have answered, or have been stopped.
class ClientsPath {
 public:
  explicit ClientsPath(Request& request) : request_(request), path_(request.path) {}
  ClientsPath(const ClientsPath&) = delete;
  ClientsPath& operator=(const ClientsPath&) = delete;
  ~ClientsPath() { request_.path = path_; }

 private:
  Request& request_;
  std::string_view path_;
};

Task<Result<Response>> handle_with_path(Request& request, std::string_view path, Handler& next) {
  const ClientsPath clients(request);
  request.path = path;
  auto response = co_await next.handle(request);
  co_return response;
}

}  // namespace

PathRewrite::PathRewrite(const RouteConfig& route)
    : stripped_(route.rewrite->strip_prefix),
      replacement_(route.rewrite->regex.empty() ? route.rewrite->prefix : route.rewrite->to),
      segments_(segments_before_rest(route.match.path)) {
  if (!route.rewrite->regex.empty()) regex_.emplace(route.rewrite->regex);
}

std::optional<std::string> PathRewrite::path_of(std::string_view path) const {
  if (!stripped_.empty()) {
    if (!path.starts_with(stripped_)) return std::nullopt;
    path.remove_prefix(stripped_.size());
    if (path.empty()) return "/";
    return path.starts_with('/') ? std::optional<std::string>(path) : std::nullopt;
  }
  if (!regex_) return replacement_ + std::string(after_segments(path, segments_));
  std::string rewritten(path);
  if (!regex_->replace_first(rewritten, replacement_)) return std::nullopt;
  if (!rewritten.starts_with('/')) rewritten.insert(0, "/");
  return rewritten;
}

Result<std::string> PathRewrite::target_of(std::string_view target) const {
  std::string storage;
  const auto path = normalised_path(target, storage);
  if (!path) return path.error();
  if (hides_dot_segments(*path)) return bad_path("the path has encoded dot segments");
  const auto rewritten = path_of(*path);
  if (!rewritten) return std::string();
  std::string normal_storage;
  const auto normal = normalised_path(*rewritten, normal_storage);
  if (!normal) return normal.error();
  std::string result(*normal);
  result += query_of(*rewritten);
  std::string_view query = query_of(target);
  if (query.size() <= 1) return result;
  result += result.find('?') == std::string::npos ? '?' : '&';
  return result.append(query.substr(1));
}

PathRewrites path_rewrites_of(const std::vector<RouteConfig>& routes) {
  return {routes, [](const RouteConfig& route) {
            return route.rewrite ? std::optional<PathRewrite>(route) : std::nullopt;
          }};
}

Task<Result<Response>> PathRewriteFilter::handle(Request& request, Handler& next) {
  const PathRewrite* const rewrite = rewrites_.find(request.info.identity);
  if (rewrite == nullptr) return next.handle(request);
  auto target = rewrite->target_of(request.path);
  if (!target) return Result<Response>(std::move(target.error()));
  if (target->empty()) return next.handle(request);
  return handle_with_path(request, request.fields.keep(*target), next);
}

}  // namespace evenkeel
