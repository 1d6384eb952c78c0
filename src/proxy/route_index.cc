#include "proxy/route_index.h"

#include "evenkeel/base/hash.h"

namespace evenkeel {
namespace {

// Keep the hashes of different kinds of keys apart.
constexpr std::uint64_t below_salt = 0x9e3779b97f4a7c15;
constexpr std::uint64_t exact_path_salt = 0xbf58476d1ce4e5b9;
constexpr std::uint64_t segment_salt = 0x94d049bb133111eb;
constexpr std::uint64_t any_path = 0x2545f4914f6cdd1d;

std::uint64_t exact_path(std::string_view path) { return hash_of(path) * exact_path_salt; }

/// The key of paths that begin with this segment.
std::uint64_t first_segment(std::string_view path) {
  const std::string_view rest = path.substr(1);
  return hash_of(rest.substr(0, rest.find('/'))) * segment_salt;
}

std::uint64_t pattern_key(std::string_view pattern) {
  if (pattern.empty()) return any_path;
  if (pattern.find('*') == std::string_view::npos) return exact_path(pattern);
  const bool wild = pattern.starts_with("/*") || !pattern.starts_with('/');
  return wild ? any_path : first_segment(pattern);
}

}  // namespace

std::uint64_t RouteIndex::exact_host(std::string_view host) { return hash_of(host); }

std::uint64_t RouteIndex::below_host(std::string_view suffix) {
  return hash_of(suffix) * below_salt;
}

RouteIndex::PathKeys RouteIndex::keys_of_path(std::string_view path) {
  return {any_path, exact_path(path), path.starts_with('/') ? first_segment(path) : any_path};
}

void RouteIndex::add(std::uint32_t route, const RouteMatch& match) {
  std::uint64_t host_key = any_host;
  if (match.host.starts_with("*.")) {
    has_wildcards_ = true;
    host_key = below_host(std::string_view(match.host).substr(1));
  } else if (!match.host.empty()) {
    host_key = exact_host(match.host);
  }
  if (!match.path.empty() || match.grpc.empty()) {
    return add(route, host_key, pattern_key(match.path));
  }
  for (const std::string& call : match.grpc) add(route, host_key, first_segment('/' + call));
}

void RouteIndex::add(std::uint32_t route, std::uint64_t host_key, std::uint64_t path_key) {
  std::vector<std::uint32_t>& routes = routes_[host_key ^ path_key];
  if (routes.empty() || routes.back() != route) routes.push_back(route);
}

}  // namespace evenkeel
