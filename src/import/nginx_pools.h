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
  /// The text with the values that `set` gives to its variables, where these are texts.
  std::string expanded(std::string_view text) const;
};

/// Where a location passes its requests to.
struct NginxTarget {
  std::string pool;
  RewriteConfig rewrite;  ///< `RewriteConfig{}`: paths stay
};

/// The time that the nearest directive of this name gives. Nothing, and noted: it is 0.
std::optional<milliseconds> time_above_zero(Draft& draft, const NginxScope& scope,
                                            std::string_view name);

/// The pools of a file, each made when a location first passes requests to it.
class NginxPools {
 public:
  NginxPools(Draft& draft, NginxDirective& http);

  /// Where a `proxy_pass` or `grpc_pass` of `location` leads; nothing, with a note, if ours cannot
  /// say it. `path`: that of the location; `is_exact`: it alone.
  std::optional<NginxTarget> target_of(NginxDirective& pass, const NginxScope& location,
                                       std::string_view path, bool is_exact);

 private:
  struct Fails;

  std::optional<std::string> pool_of(const NginxDirective& pass, const std::string& url,
                                     const NginxScope& location);
  bool fill(PoolConfig& pool, std::string_view authority, bool secure, int line);
  void read_upstream(NginxDirective& upstream, PoolConfig& pool, bool secure);
  void read_server(NginxDirective& server, PoolConfig& pool, bool secure,
                   std::vector<Fails>& fails);
  void read_fails(const std::vector<Fails>& fails, PoolConfig& pool);
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
