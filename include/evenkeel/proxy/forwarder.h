// Sends a request to a backend of its pool and ties what it used to the life of the answer.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>

#include "evenkeel/balance/pool.h"
#include "evenkeel/base/loop.h"
#include "evenkeel/http/message.h"
#include "evenkeel/stats/worker_metrics.h"
#include "evenkeel/upstream/link_pool.h"

namespace evenkeel {

/// A backend as one worker reaches it.
struct Target {
  std::shared_ptr<LinkPool> links;
  BackendMetrics* metrics;
  std::string_view authorization;  ///< what requests carry in that field; empty: the client's
};

struct ForwarderOptions {
  std::string pool;
  std::uint32_t pool_index = 0;            ///< of Names
  std::optional<std::string> hash_header;  ///< whose value sticks to a backend
  bool debug_headers = false;
};

/// The end of the filter chain for one pool. Thread: one worker's.
///
/// A backend that cannot be connected is not tried again by the same request; another is. A link
/// that its server closed while it was idle is replaced once, unseen
/// (docs/decisions/0002-retry-on-dead-link.md). Nothing else is asked twice.
class Forwarder final : public Handler {
 public:
  Forwarder(Loop& loop, std::shared_ptr<PoolState> state, std::uint64_t seed,
            std::unordered_map<const Backend*, Target> targets, WorkerMetrics& worker_metrics,
            ForwarderOptions options);

  Task<Result<Response>> handle(Request& request) override;

 private:
  Hint hint_of(const Request& request) const;
  Task<Result<Lease>> acquire(const Hint& hint);
  Task<Result<Lease>> wait_in_queue(Task<Result<Lease>> placed);
  void add_debug_headers(const Backend& backend, Response& response) const;

  Loop& loop_;
  Pool pool_;
  std::unordered_map<const Backend*, Target> targets_;
  WorkerMetrics& worker_metrics_;
  PoolMetrics& metrics_;
  ForwarderOptions options_;
  std::uint32_t picks_ = 0;
};

}  // namespace evenkeel
