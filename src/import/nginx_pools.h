// The pools that nginx's upstreams and proxy_pass stand for.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "import/draft.h"
#include "import/nginx_syntax.h"

namespace evenkeel::import {

/// A block within the blocks around it, whose directives it inherits.
struct NginxScope {
  NginxDirective& block;
  const NginxScope* outer = nullptr;
  std::vector<NginxDirective*> settings;  ///< of the block itself, without its locations

  explicit NginxScope(NginxDirective& of, const NginxScope* around = nullptr);

  /// The block's own directive of that name; null if there is none.
  NginxDirective* own(std::string_view name) const;
  /// The nearest directive of that name, which counts as used then; null if there is none.
  NginxDirective* find(std::string_view name) const;
};

/// The time that the nearest directive of this name gives. Nothing, and noted: it is 0.
std::optional<milliseconds> time_above_zero(Draft& draft, const NginxScope& scope,
                                            std::string_view name);

/// The pools of a file, each made when a location first passes requests to it.
class NginxPools {
 public:
  NginxPools(Draft& draft, NginxDirective& http);

  /// The name of the pool that a `proxy_pass` or `grpc_pass` of `location` leads to; nothing, with
  /// a note, if no pool can stand for it. `prefix`: the path of the location.
  std::optional<std::string> pool_of(NginxDirective& pass, const NginxScope& location,
                                     std::string_view prefix);

 private:
  bool fill(PoolConfig& pool, std::string_view authority, bool secure, int line);
  void read_upstream(NginxDirective& upstream, PoolConfig& pool, bool secure);
  void read_server(NginxDirective& server, PoolConfig& pool, bool secure);
  void read_method(NginxDirective& method, PoolConfig& pool);

  Draft& draft_;
  std::map<std::string, NginxDirective*, std::less<>> upstreams_;
  /// A pool with the settings of its locations, before its servers are read.
  struct Known {
    PoolConfig settings;
    std::string name;  // empty: refused
  };
  std::map<std::string, std::vector<Known>, std::less<>> pools_;  // by "http://llama"
};

}  // namespace evenkeel::import
