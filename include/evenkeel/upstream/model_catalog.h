// Which models each pool serves now.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "evenkeel/base/result.h"
#include "evenkeel/config/config.h"
#include "evenkeel/inference/model_cards.h"
#include "evenkeel/upstream/backend_status.h"
#include "evenkeel/upstream/pool_set.h"

namespace evenkeel {

/// The models of one pool.
struct PoolModels {
  /// True if a backend serves: it is in rotation, or on standby and could be.
  bool available = false;
  /// True if `models` is all that there is. False: the file names none, and no backend has said.
  bool known = false;
  /// True if every backend that serves has listed its models in full.
  bool listed = false;
  /// True if a backend has an API of its own at /v1/models (TensorFlow Serving).
  bool own_api = false;
  /// The models that the file names, in its order; else what the backends in rotation list, by
  /// name. None while no backend is available.
  std::vector<ModelCard> models;
  /// A model "NAME" + this suffix may be requested as "NAME". Empty: no such suffix.
  std::string_view implied_tag;

  /// Null if the pool does not serve the model.
  const ModelCard* find(std::string_view model) const;
};

/// The models of some pools at one moment. Immutable. Thread: any.
class ModelCatalog {
 public:
  using Pools = std::map<std::string, std::shared_ptr<const PoolModels>, std::less<>>;

  ModelCatalog() = default;
  explicit ModelCatalog(Pools pools) : pools_(std::move(pools)) {}

  /// Null if nothing is known of that pool, which the catalog does not cover. Valid as long as the
  /// catalog.
  const PoolModels* find(std::string_view pool) const;
  const Pools& pools() const { return pools_; }

 private:
  Pools pools_;
};

/// Builds the catalog again when something has changed.
///
/// Thread: one at a time.
class ModelCatalogBuilder {
 public:
  /// `covered`: the names of the pools that the catalog is to have. Null: the catalog is as before.
  /// Cheap then: a comparison per backend of these pools.
  /// REQUIRES: `pool_set` was built from `config`.
  std::shared_ptr<const ModelCatalog> update(const Config& config, const PoolSet& pool_set,
                                             const MonitorSnapshot& monitored,
                                             const std::set<std::string>& covered);

 private:
  /// What the models of a pool depend on.
  struct Inputs {
    std::vector<std::string> named;  // in the file
    std::string served;              // what the backends get instead of these; empty: these
    bool available = false;
    bool own_api = false;
    bool listed = true;
    std::vector<ModelCards> cards;  // of each backend that counts and has any
    std::vector<ModelList> lists;   // of each that counts and has only names
    std::string_view implied_tag;

    bool operator==(const Inputs&) const = default;
  };
  struct Known {
    Inputs inputs;
    std::shared_ptr<const PoolModels> models;
  };

  static Inputs inputs_of(const PoolConfig& pool, const PoolSet::PoolEntry& entry,
                          const MonitorSnapshot& monitored);
  static PoolModels models_of(const Inputs& inputs);

  std::map<std::string, Known, std::less<>> known_;
};

/// The error for a request that asks for a model which nothing serves: 404. Names those of `names`
/// that it may have meant, and `list`, the path that lists the models. `model` is a client's text:
/// as much of it is repeated as is useful.
Error model_not_found(std::string_view model, std::span<const std::string_view> names,
                      std::string_view list);

}  // namespace evenkeel
