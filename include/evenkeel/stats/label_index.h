// Maps the names that label metrics to indices of WorkerMetrics.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "evenkeel/stats/label_names.h"

namespace evenkeel {

class LabelUses;
class MetricsRegistry;

/// Indices that lose their names.
struct ForgottenLabels {
  std::vector<std::uint32_t> pools;
  std::vector<std::uint32_t> routes;
  std::vector<std::uint32_t> backends;
  std::vector<std::uint32_t> tenants;

  bool empty() const {
    return pools.empty() && routes.empty() && backends.empty() && tenants.empty();
  }
};

/// Indices of the names that label metrics. Names come from the configuration; those of models also
/// from clients, up to `max_models`. While no plan uses a name of a pool, route, backend or tenant,
/// its series are not exported. The last of such names keep their indices, so their counters
/// continue if they come back; others are forgotten (LabelNames). The other names keep theirs for
/// the life of the process. Index 0 means "none".
///
/// Thread: any. Takes a lock: a plan reads it while it is built. Requests do so only for the first
/// request of a worker to a model, through ModelNames.
class LabelIndex {
 public:
  /// `metrics` outlives it; null: nothing is counted by these indices.
  explicit LabelIndex(MetricsRegistry* metrics = nullptr) : metrics_(metrics) {}

  /// The index of a listener; those of pools, routes, backends and tenants come from LabelUses.
  std::uint32_t listener(std::string_view name);
  /// 0 if no plan has had the backend, or not for long.
  std::uint32_t find_backend(std::string_view pool, std::string_view backend) const;

  /// Requests of none of the tenants that the file names.
  static constexpr std::uint32_t other_tenant = 1;

  /// Models that are known by requests alone; further ones count as `other_model`.
  static constexpr std::uint32_t max_models = 100;
  static constexpr std::uint32_t other_model = 1;
  /// The index of a model that a request names. A name that a label cannot show is `other_model`.
  std::uint32_t model(std::string_view name);
  /// A model that the file names: it has an index of its own, also beyond `max_models`.
  void pin_model(std::string_view name);
  std::map<std::string, std::uint32_t, std::less<>> models() const;
  /// Grows with each new name. Takes no lock.
  std::uint32_t models_version() const { return models_version_.load(std::memory_order_acquire); }
  /// True if no model is added any more unless it is pinned.
  bool models_full() const;

  /// Registers that requests of this route may go to this pool: exports the series from then on.
  void add_route_to_pool(std::uint32_t route, std::uint32_t pool);
  /// Pins a model that the file names for this pool: exports the series from then on.
  void add_model_to_pool(std::string_view model, std::uint32_t pool);

  using IndexPairs = std::vector<std::pair<std::uint32_t, std::uint32_t>>;

  /// All names by index; [0] is empty, and so are names that are not in use.
  struct View {
    bool has_pool(std::uint32_t pool) const { return pool == 0 || !pools[pool].empty(); }
    bool has_route(std::uint32_t route) const { return route == 0 || !routes[route].empty(); }
    std::vector<std::string> pools;
    std::vector<std::string> routes;
    std::vector<std::string> listeners;
    std::vector<std::string> models;   ///< [0]: of requests without a model; [1]: "other"
    std::vector<std::string> tenants;  ///< [1]: "other"; empty if none is in use
    IndexPairs route_pools;            ///< route, pool; ascending
    IndexPairs pool_models;            ///< pool, model; ascending
  };
  View view() const;

 private:
  friend class LabelUses;

  std::uint32_t add(LabelNames& names, std::string_view name);
  static std::vector<std::string> used_names(const LabelNames& names);
  std::uint32_t add_model(std::string_view name);
  void release(const LabelUses& uses);
  ForgottenLabels forget();
  void clear(const ForgottenLabels& forgotten);

  MetricsRegistry* const metrics_;
  std::mutex clearing_;  // locked before `mutex_`
  mutable std::mutex mutex_;
  LabelNames pools_{1};
  LabelNames routes_{1};
  LabelNames listeners_{1};
  LabelNames backends_{1};
  LabelNames tenants_{other_tenant + 1};
  std::map<std::string, std::uint32_t, std::less<>> models_;
  std::uint32_t unpinned_models_ = 0;
  std::atomic<std::uint32_t> models_version_{0};
  IndexPairs route_pools_;
  IndexPairs pool_models_;
};

/// The names of one plan, or of one of its parts. Their indices last as long as it lives, and their
/// series are exported: until the last request has ended. Thread: any, one at a time.
class LabelUses {
 public:
  explicit LabelUses(LabelIndex& index) : index_(index) {}
  LabelUses(const LabelUses&) = delete;
  LabelUses& operator=(const LabelUses&) = delete;
  ~LabelUses();

  std::uint32_t pool(std::string_view name);
  std::uint32_t route(std::string_view name);
  std::uint32_t backend(std::string_view pool, std::string_view backend);
  std::uint32_t tenant(std::string_view name);

 private:
  friend class LabelIndex;
  std::uint32_t use(LabelNames& names, std::string_view name, std::vector<std::uint32_t>& used);

  LabelIndex& index_;
  std::vector<std::uint32_t> pools_;
  std::vector<std::uint32_t> routes_;
  std::vector<std::uint32_t> backends_;
  std::vector<std::uint32_t> tenants_;
};

}  // namespace evenkeel
