// Narrows down which routes a request may match, for files with many of them.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "evenkeel/base/host.h"
#include "evenkeel/config/config.h"

namespace evenkeel {

/// Routes by host and path. The key of a route is its host (exact, all names below one, or any)
/// with its path (exact, a literal first segment, or any). A request has every key that a route
/// which matches it can have. Routes that differ only in fields, methods or later segments share a
/// key.
///
/// Once filled: any thread.
class RouteIndex {
 public:
  /// REQUIRES: `route` is higher than in every earlier call.
  void add(std::uint32_t route, const RouteMatch& match);

  /// The lowest route for which `matches(route)` holds. `host` has no port, `path` is normalised.
  template <class Matches>
  std::optional<std::uint32_t> lowest(std::string_view host, std::string_view path,
                                      const Matches& matches) const {
    std::string storage;
    host = normal_host(host, storage);
    std::optional<std::uint32_t> best;
    const PathKeys path_keys = keys_of_path(path);
    const auto look = [&](std::uint64_t host_key) {
      for (const std::uint64_t path_key : path_keys) {
        const auto found = routes_.find(host_key ^ path_key);
        if (found == routes_.end()) continue;
        for (const std::uint32_t route : found->second) {
          if (best && route >= *best) break;
          if (!matches(route)) continue;
          best = route;
          break;
        }
      }
    };
    look(any_host);
    look(exact_host(host));
    for (auto dot = host.find('.', 1); has_wildcards_ && dot != std::string_view::npos;
         dot = host.find('.', dot + 1)) {
      look(below_host(host.substr(dot)));
    }
    return best;
  }

 private:
  using PathKeys = std::array<std::uint64_t, 3>;
  static constexpr std::uint64_t any_host = 0;

  // Two that collide share a list.
  static std::uint64_t exact_host(std::string_view host);
  static std::uint64_t below_host(std::string_view suffix);
  static PathKeys keys_of_path(std::string_view path);
  void add(std::uint32_t route, std::uint64_t host_key, std::uint64_t path_key);

  std::unordered_map<std::uint64_t, std::vector<std::uint32_t>> routes_;
  bool has_wildcards_ = false;  // in hosts
};

}  // namespace evenkeel
