// Maps the names that label metrics to indices of WorkerMetrics.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace evenkeel {

/// Indices of the names that label metrics. Names come from the configuration; those of models also
/// from clients, up to `max_models`. A name keeps its index for the life of the process, so
/// counters continue over reloads; while no plan uses it, its series are not exported. Index 0
/// means "none".
///
/// Thread: any. Takes a lock: a plan reads it while it is built. Requests do so only for the first
/// request of a worker to a model, through ModelNames.
class LabelIndex {
 public:
  std::uint32_t pool(std::string_view name);
  std::uint32_t route(std::string_view name);
  std::uint32_t listener(std::string_view name);
  std::uint32_t backend(std::string_view pool, std::string_view backend);

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
  /// No model is added any more unless it is pinned.
  bool models_full() const;

  /// Registers that requests of this route may go to this pool: exports the series from then on.
  void add_route_to_pool(std::uint32_t route, std::uint32_t pool);

  /// All names by index; [0] is empty, and so are names that are not in use.
  struct View {
    bool has_pool(std::uint32_t pool) const { return pool == 0 || !pools[pool].empty(); }
    bool has_route(std::uint32_t route) const { return route == 0 || !routes[route].empty(); }
    std::vector<std::string> pools;
    std::vector<std::string> routes;
    std::vector<std::string> listeners;
    std::vector<std::string> models;   ///< [0]: of requests without a model; [1]: "other"
    std::vector<std::string> tenants;  ///< [1]: "other"; empty if none is in use
    std::vector<std::pair<std::uint32_t, std::uint32_t>> route_pools;  ///< route, pool; ascending
  };
  View view() const;

 private:
  friend class LabelUses;
  using Index = std::map<std::string, std::uint32_t, std::less<>>;
  /// How many plans use each index. A name that no plan has used yet counts as in use.
  using UseCounts = std::map<std::uint32_t, std::uint32_t>;

  static bool in_use(const UseCounts& counts, std::uint32_t index) {
    const auto found = counts.find(index);
    return found == counts.end() || found->second > 0;
  }
  static void list(const Index& index, const UseCounts& uses, std::vector<std::string>& names);
  static std::uint32_t index_of(Index& index, std::string_view name);
  std::uint32_t add_model(std::string_view name);
  std::uint32_t add_tenant(std::string_view name);

  mutable std::mutex mutex_;
  Index pools_;
  Index routes_;
  Index listeners_;
  Index backends_;
  Index models_;
  Index tenants_;
  std::uint32_t unpinned_models_ = 0;
  std::atomic<std::uint32_t> models_version_{0};
  std::vector<std::pair<std::uint32_t, std::uint32_t>> route_pools_;
  UseCounts pool_uses_;
  UseCounts route_uses_;
  UseCounts tenant_uses_;
};

/// The pools, routes and tenants of one plan, whose series are exported as long as it lives: until
/// its last request has ended. Thread: any, one at a time.
class LabelUses {
 public:
  explicit LabelUses(LabelIndex& index) : index_(index) {}
  LabelUses(const LabelUses&) = delete;
  LabelUses& operator=(const LabelUses&) = delete;
  ~LabelUses();

  /// REQUIRES: called once for each pool, route and tenant of the plan.
  std::uint32_t pool(std::string_view name);
  std::uint32_t route(std::string_view name);
  std::uint32_t tenant(std::string_view name);

 private:
  LabelIndex& index_;
  std::vector<std::uint32_t> pools_;
  std::vector<std::uint32_t> routes_;
  std::vector<std::uint32_t> tenants_;
};

}  // namespace evenkeel
