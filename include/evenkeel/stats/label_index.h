// Maps the names that label metrics to indices of WorkerMetrics.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace evenkeel {

/// Indices of the names that label metrics. Names come from the configuration, never from clients.
/// A name keeps its index for the life of the process, so counters continue over reloads. Index 0
/// means "none".
///
/// Thread: any. Takes a lock: a plan reads it while it is built, never during a request.
class LabelIndex {
 public:
  std::uint32_t pool(std::string_view name);
  std::uint32_t route(std::string_view name);
  std::uint32_t listener(std::string_view name);
  std::uint32_t backend(std::string_view pool, std::string_view backend);
  /// Registers that requests of this route may go to this pool: exports the series from then on.
  void add_route_to_pool(std::uint32_t route, std::uint32_t pool);

  /// All names so far, by index; [0] is empty.
  struct View {
    std::vector<std::string> pools;
    std::vector<std::string> routes;
    std::vector<std::string> listeners;
    std::vector<std::pair<std::uint32_t, std::uint32_t>> route_pools;  ///< route, pool; ascending
  };
  View view() const;

 private:
  using Index = std::map<std::string, std::uint32_t, std::less<>>;
  std::uint32_t index_of(Index& index, std::string_view name);

  mutable std::mutex mutex_;
  Index pools_;
  Index routes_;
  Index listeners_;
  Index backends_;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> route_pools_;
};

}  // namespace evenkeel
