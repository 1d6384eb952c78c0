// Which pools the requests to models of a host can go to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "evenkeel/config/config.h"
#include "evenkeel/http/fields.h"

namespace evenkeel {

/// True if some clients may use some models only. Keys that are kept outside of the file may at any
/// time.
bool may_limit_models(const Config& config);

/// Answers that from the routes that take requests of inference APIs, which are posted to a handful
/// of known paths. Immutable; any thread.
class ModelReach {
 public:
  /// OpenAI's and Anthropic's APIs, and Ollama's, which have lists of models; KServe's has none.
  enum class Api : std::uint8_t { openai, ollama, kserve };

  struct Pool {
    std::size_t number = 0;  ///< in the file
    bool any_model = false;
    std::vector<std::string_view> models;  ///< names and globs, unless it takes any

    bool takes(std::string_view model) const;
  };
  struct Pools {
    std::vector<Pool> list;  ///< in the order of the file, each once
    bool by_body = false;    ///< some only for some requests, by what is in their bodies
  };

  /// `config` outlives it.
  explicit ModelReach(const Config& config);

  /// The pools for requests of a client with this authority and these fields. Null: any fields.
  Pools pools_for(Api api, std::string_view authority, const Fields* fields) const;

  /// REQUIRES: the file has this pool.
  const PoolConfig& pool(std::string_view name) const { return config_.pools[numbers_.at(name)]; }

  /// True if the route takes requests to a model; others that match /v1/models do so on purpose.
  bool takes_requests(std::size_t route, Api api = Api::openai) const {
    return (paths_[route] & paths_of(api)) != 0;
  }

  /// True if the client is better served with a list of evenkeel's own than with one backend's:
  /// there are several pools, or names that the backends do not know.
  bool merges(const Pools& pools) const;

  /// The names of the pools whose models may have to be listed or named for some client. Empty:
  /// none.
  std::set<std::string> pools_to_list() const;

 private:
  using Paths = std::uint32_t;  // a bit for each of the known paths
  using Routes = std::vector<std::uint32_t>;
  static Paths paths_of(Api api);
  static Paths paths_of(const RouteMatch& match);
  Routes routes_of(std::string_view authority) const;
  void add_pools(const RouteConfig& route, std::map<std::size_t, Pool>& pools) const;
  void add_to_list(std::string_view authority, bool always, std::set<std::string>& names) const;

  const Config& config_;
  std::vector<Paths> paths_;                                   // of each route
  std::map<std::string, Routes, std::less<>> hosts_;           // by host as in the file
  std::unordered_map<std::string_view, std::size_t> numbers_;  // of pools, by name
};

}  // namespace evenkeel
