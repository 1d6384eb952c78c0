// nginx's limits of requests and connections as `rate_limits`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "import/draft.h"
#include "import/nginx_keys.h"
#include "import/nginx_pools.h"
#include "import/nginx_syntax.h"

namespace evenkeel::import {

/// A rate of which `at_once` requests may come at once, in the shortest period that can say it.
LimitsConfig limit_with_burst(std::uint64_t rate, LimitPeriod period, std::uint64_t at_once);

/// Ours hold for all requests: those of nginx count that all locations which lead to a pool have.
class NginxLimits {
 public:
  /// Reads the zones of the file, wherever they stand.
  NginxLimits(Draft& draft, NginxDirective& root);

  /// Takes the limits that hold in a location which leads to a pool. `is_open`: so does its route;
  /// else evenkeel answers in its place.
  void read(const NginxScope& location, bool is_open, bool needs_key);
  /// Adds the limits that all of these have, and notes the others as lost.
  void finish(NginxKeys& keys);

 private:
  struct Zone {
    NginxDirective* directive = nullptr;
    std::string by;          // empty: by something that ours do not know
    std::uint64_t rate = 0;  // of requests; of connections 0
    LimitPeriod period = LimitPeriod::second;
  };
  /// A zone's use in the locations.
  struct Use {
    std::vector<NginxDirective*> directives;
    std::size_t locations = 0;
    std::uint64_t most = 0;   // requests beyond the rate, or connections; the least of all
    bool is_delayed = false;  // requests beyond the rate wait
    int status = 503;
  };
  struct Place {
    int line = 0;
    std::vector<std::string> zones;
    bool needs_key = false;
  };

  void find_zones(NginxDirective& block);
  void take(NginxDirective& directive, const NginxScope& location, Place& place);
  void add(const Zone& zone, const Use& use);
  void leave_out(const Use& use, std::string_view why);
  const Place* place_without(const std::string& key, const Zone& zone) const;

  Draft& draft_;
  std::map<std::string, Zone, std::less<>> zones_;  // by directive and name: "limit_req one"
  std::map<std::string, Use, std::less<>> uses_;
  std::vector<Place> places_;
};

}  // namespace evenkeel::import
