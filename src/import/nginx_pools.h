// The pools that nginx's upstreams and proxy_pass stand for.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "import/draft.h"
#include "import/nginx_syntax.h"

namespace evenkeel::import {

/// A block within the blocks around it, whose directives it inherits.
struct NginxScope {
  NginxDirective& block;
  const NginxScope* outer = nullptr;

  /// The nearest directive of that name, which counts as used then; null if there is none.
  NginxDirective* find(std::string_view name) const;
};

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
  std::map<std::string, std::string, std::less<>> pools_;  // "http://llama" -> name; "": refused
};

}  // namespace evenkeel::import
