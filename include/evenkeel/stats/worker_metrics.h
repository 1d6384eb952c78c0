// What each worker counts: a sheet of its own, written without locks, summed when somebody asks.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "evenkeel/base/clock.h"
#include "evenkeel/base/result.h"
#include "evenkeel/base/tls_outcome.h"
#include "evenkeel/stats/chunked_array.h"
#include "evenkeel/stats/counter.h"
#include "evenkeel/stats/histogram.h"
#include "evenkeel/stats/label_index.h"

namespace evenkeel {

/// One counter per fault.
class FaultCounters {
 public:
  void count(Fault fault) { counters_[static_cast<std::size_t>(fault)].add(); }
  std::uint64_t value(Fault fault) const {
    return counters_[static_cast<std::size_t>(fault)].value();
  }

 private:
  std::array<Counter, fault_count> counters_;
};

/// One counter per status, 100 to 599, in blocks that exist once one of their hundred was seen.
/// Whatever is outside (0: nothing was written) counts as 0.
class StatusCounters {
 public:
  StatusCounters() = default;
  StatusCounters(const StatusCounters&) = delete;
  StatusCounters& operator=(const StatusCounters&) = delete;
  ~StatusCounters();

  void count(int status) {
    const auto status_class = static_cast<unsigned>(status) / 100 - 1;
    if (status_class >= status_classes_.size()) [[unlikely]]
      return other_.add();
    StatusClass* block = status_classes_[status_class].load(std::memory_order_relaxed);
    if (block == nullptr) [[unlikely]]
      block = make(status_class);
    (*block)[static_cast<unsigned>(status) % 100].add();
  }
  std::uint64_t value(int status) const;
  /// Some status was counted.
  bool used() const;

 private:
  using StatusClass = std::array<Counter, 100>;
  StatusClass* make(std::size_t status_class);

  std::array<std::atomic<StatusClass*>, 5> status_classes_{};
  Counter other_;
};

/// One counter per status of gRPC, and one for whatever is none.
class GrpcStatusCounters {
 public:
  static constexpr std::size_t statuses = 17;  ///< OK (0) to UNAUTHENTICATED (16)

  void count(std::size_t status) { counters_[status < statuses ? status : statuses].add(); }
  /// `status` at `statuses`: of the others.
  std::uint64_t value(std::size_t status) const { return counters_[status].value(); }

 private:
  std::array<Counter, statuses + 1> counters_;
};

/// What is counted per pool; index 0 takes what never reached one.
struct PoolMetrics {
  Gauge in_flight;  ///< requests given to this pool and not ended, waiting ones included
  Gauge waiting;    ///< of these, in line
  Histogram<request_bounds> duration;
  Histogram<first_byte_bounds> first_byte;
  Histogram<first_byte_bounds> wait;
  FaultCounters errors;   ///< requests that failed, by the fault that ended them
  FaultCounters retries;  ///< attempts that followed a failed one, by the fault of that one
};

struct ListenerMetrics {
  Counter opened;
  Counter closed;
  std::array<Counter, tls_outcome_count> handshakes;  ///< of TLS, by how they ended
};

/// What is counted per backend and worker; picks, places and errors are in balance, where picking
/// needs them. Links in use are `busy`, kept ones `idle`.
struct BackendMetrics {
  Gauge links_busy;
  Gauge links_idle;
  Histogram<request_bounds> latency;  ///< from a request's end to the last byte of its answer
};

/// What one request leaves behind when it ends.
struct RequestRecord {
  std::uint32_t pool = 0;                   ///< of Names; 0: none
  std::uint32_t route = 0;                  ///< of Names; 0: none
  int status = 0;                           ///< as the client saw it, 499 when it was gone
  std::optional<std::uint8_t> grpc_status;  ///< of a gRPC call
  Duration duration{};                      ///< from its first byte to the answer's last
  std::optional<Duration> first_byte;       ///< from its first byte to the answer's head
  Duration waited{};                        ///< in the pool's line; counted where there is a pool
  std::optional<Duration> overhead;         ///< spent in evenkeel alone
  std::uint64_t request_bytes = 0;          ///< of the body
  std::uint64_t response_bytes = 0;
};

/// The counters of one worker. Cells are made when first asked for and never move: a plan may keep
/// their addresses as long as the sheet lives.
///
/// Thread: one worker's, but for the const functions: any.
class alignas(64) WorkerMetrics {
 public:
  PoolMetrics& pool(std::uint32_t index) { return pools_.at(index); }
  ListenerMetrics& listener(std::uint32_t index) { return listeners_.at(index); }
  BackendMetrics& backend(std::uint32_t index) { return backends_.at(index); }
  StatusCounters& requests(std::uint32_t route, std::uint32_t pool) {
    return requests_.at(route).at(pool);
  }
  GrpcStatusCounters& grpc(std::uint32_t route, std::uint32_t pool) {
    return grpc_.at(route).at(pool);
  }

  /// Counts a request that has ended. Some 180 instructions, no system call.
  void count(const RequestRecord& request);
  /// Counts a request that failed, besides `count`. `pool` 0: it never reached one.
  void count_error(std::uint32_t pool, Fault fault) { pools_.at(pool).errors.count(fault); }
  void observe_pick(Duration duration) { pick_.observe(duration); }

  const PoolMetrics* find_pool(std::uint32_t index) const { return pools_.find(index); }
  const ListenerMetrics* find_listener(std::uint32_t index) const { return listeners_.find(index); }
  const BackendMetrics* find_backend(std::uint32_t index) const { return backends_.find(index); }
  const StatusCounters* find_requests(std::uint32_t route, std::uint32_t pool) const {
    const auto* row = requests_.find(route);
    return row == nullptr ? nullptr : row->find(pool);
  }
  /// Null where no call has ended yet.
  const GrpcStatusCounters* find_grpc(std::uint32_t route, std::uint32_t pool) const {
    const auto* row = grpc_.find(route);
    return row == nullptr ? nullptr : row->find(pool);
  }
  std::uint64_t request_bytes() const { return request_bytes_.value(); }
  std::uint64_t response_bytes() const { return response_bytes_.value(); }
  const Histogram<internal_bounds>& overhead() const { return overhead_; }
  const Histogram<internal_bounds>& pick() const { return pick_; }

 private:
  Counter request_bytes_;
  Counter response_bytes_;
  Histogram<internal_bounds> overhead_;
  Histogram<internal_bounds> pick_;
  ChunkedArray<PoolMetrics> pools_;
  ChunkedArray<ChunkedArray<StatusCounters>> requests_;  // by route, then by pool
  ChunkedArray<ChunkedArray<GrpcStatusCounters>> grpc_;  // likewise
  ChunkedArray<ListenerMetrics> listeners_;
  ChunkedArray<BackendMetrics> backends_;
};

/// What all workers counted of one backend.
struct BackendTotals {
  std::int64_t links_busy = 0;
  std::int64_t links_idle = 0;
  HistogramTotals latency;
};

/// The sheets of all workers and the names that they share.
class MetricsRegistry {
 public:
  explicit MetricsRegistry(unsigned workers);

  unsigned size() const { return static_cast<unsigned>(metrics_registry_.size()); }
  WorkerMetrics& worker_metrics(unsigned worker) { return *metrics_registry_[worker]; }
  const WorkerMetrics& worker_metrics(unsigned worker) const { return *metrics_registry_[worker]; }
  LabelIndex& label_index() { return label_index_; }
  const LabelIndex& label_index() const { return label_index_; }

  /// Thread: any.
  BackendTotals backend_totals(std::uint32_t index) const;
  /// Requests given to this pool and not ended, over all workers. Thread: any.
  std::int64_t in_flight(std::uint32_t pool) const;
  std::int64_t waiting(std::uint32_t pool) const;
  /// Open connections over all workers. Thread: any.
  std::int64_t connections(std::uint32_t listener) const;

 private:
  LabelIndex label_index_;
  std::vector<std::unique_ptr<WorkerMetrics>> metrics_registry_;
};

}  // namespace evenkeel
