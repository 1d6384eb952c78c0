// The metrics of each worker, written without locks and summed by a scrape.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "evenkeel/base/clock.h"
#include "evenkeel/base/overload.h"
#include "evenkeel/base/result.h"
#include "evenkeel/base/tls_outcome.h"
#include "evenkeel/stats/chunked_array.h"
#include "evenkeel/stats/counter.h"
#include "evenkeel/stats/histogram.h"
#include "evenkeel/stats/label_index.h"
#include "evenkeel/stats/model_metrics.h"
#include "evenkeel/stats/recent_requests.h"
#include "evenkeel/stats/span_queue.h"
#include "evenkeel/stats/sparse_array.h"

namespace evenkeel {

/// One counter per fault.
class FaultCounters {
 public:
  void count(Fault fault) { counters_[static_cast<std::size_t>(fault)].add(); }
  std::uint64_t value(Fault fault) const {
    return counters_[static_cast<std::size_t>(fault)].value();
  }
  void clear() {
    for (Counter& counter : counters_) counter.clear();
  }

 private:
  std::array<Counter, fault_count> counters_;
};

/// One counter per status from 100 to 599, in blocks of a hundred that exist once one of them was
/// counted. Any other status (0: nothing was written) counts as 0.
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
  /// True if a status was counted, perhaps before `clear`.
  bool used() const;
  void clear();

 private:
  using StatusClass = std::array<Counter, 100>;
  StatusClass* make(std::size_t status_class);

  std::array<std::atomic<StatusClass*>, 5> status_classes_{};
  Counter other_;
};

/// One counter per status of gRPC, and one for all other values.
class GrpcStatusCounters {
 public:
  static constexpr std::size_t statuses = 17;  ///< OK (0) to UNAUTHENTICATED (16)

  void count(std::size_t status) { counters_[status < statuses ? status : statuses].add(); }
  /// `statuses` gives the counter of all other values.
  std::uint64_t value(std::size_t status) const { return counters_[status].value(); }
  void clear() {
    for (Counter& counter : counters_) counter.clear();
  }

 private:
  std::array<Counter, statuses + 1> counters_;
};

/// Copies of requests for a pool that is a route's `mirror`.
struct MirrorMetrics {
  Gauge in_flight;
  Counter answered;   ///< with a whole response
  Counter failed;     ///< without one
  Counter excess;     ///< not sent: too many were in flight
  Counter unread;     ///< not sent: the body is a stream, or too long to be held
  Counter no_memory;  ///< not sent: memory is scarce, or bodies take too much of it

  void clear();
};

/// Requests to the backends of a pool with `batching`.
struct BatchingMetrics {
  Counter idle;      ///< sent because no other of their kind was in flight
  Counter full;      ///< sent because no other fits beside them
  Counter waited;    ///< sent because their first one has waited long enough
  Counter requests;  ///< of clients, in all of them
  Counter inputs;    ///< of these
  Counter split;     ///< requests of clients that were sent again, each by itself

  void clear();
};

/// Metrics of a pool; index 0 counts requests that never reached one.
struct PoolMetrics {
  Gauge in_flight;  ///< requests sent to this pool that have not ended, queued ones included
  Gauge waiting;    ///< of these, in the queue
  TracedHistogram<request_bounds> duration;
  TracedHistogram<first_byte_bounds> first_byte;
  TracedHistogram<first_byte_bounds> wait;
  FaultCounters errors;      ///< requests that failed, by the fault that ended them
  FaultCounters retries;     ///< attempts after a failed one, by its fault
  Counter budget_exhausted;  ///< retries that the pool's budget did not allow
  Counter fallbacks;         ///< requests that went to the pool's fallback
  Counter cache_hits;        ///< requests with an answer that was kept, and is still to be used
  Counter cache_stale;       ///< requests with one that was kept for longer, in place of an error
  Counter cache_misses;      ///< requests whose answer may be kept, and was not there
  Counter coalesced;         ///< requests with the answer to another one in flight
  Counter moved_picks;       ///< requests that a data plane sent elsewhere than they were picked for
  MirrorMetrics mirror;
  BatchingMetrics batching;

  void clear();
};

/// Copies of request bodies that are kept for retries.
struct ReplayMetrics {
  Gauge held;         ///< bytes
  Counter overflows;  ///< bodies that were larger than a copy may be
};

/// Requests to models whose bodies were to be inspected.
struct InspectionMetrics {
  Counter complete;   ///< read to the end
  Counter partial;    ///< placed on what was read of a longer or damaged body
  Counter malformed;  ///< refused
  Counter unread;     ///< in an encoding that is not read, or could not be decompressed
};

/// Metrics of a tenant.
struct TenantMetrics {
  Counter requests;      ///< that have ended
  TokenCounters tokens;  ///< of requests whose responses are read
  Gauge in_flight;       ///< requests that have not ended, queued ones included
  Gauge waiting;         ///< of these, in the queue of a pool

  void clear();
};

struct ListenerMetrics {
  Counter opened;
  Counter closed;
  std::array<Counter, tls_outcome_count> handshakes;  ///< of TLS, by outcome
  std::array<Counter, shed_reason_count> shed;        ///< closed to make room, by ShedReason
};

/// Metrics of a backend. Its picks, slots and errors are in SharedBackend of backend, where pickers
/// read them. Links in use are `busy`, kept ones `idle`.
struct BackendMetrics {
  Gauge links_busy;
  Gauge links_idle;
  /// Responses by the first digit of their status, which is 1 to 5.
  std::array<Counter, 5> status_classes;
  Histogram<first_byte_bounds> first_byte;  ///< from a request's end to its response's beginning
  Histogram<request_bounds> latency;  ///< from a request's end to the last byte of its response
  Histogram<token_bounds> per_output_token;  ///< of streams, about twice a second each
  TokenCounters tokens;                      ///< of requests whose responses are read

  void count_status(int status) {
    const auto status_class = static_cast<unsigned>(status) / 100 - 1;
    if (status_class < status_classes.size()) status_classes[status_class].add();
  }
  void clear();
};

/// A request that has ended.
struct RequestRecord {
  std::uint32_t pool = 0;                   ///< of LabelIndex; 0: none
  std::uint32_t route = 0;                  ///< of LabelIndex; 0: none
  int status = 0;                           ///< as the client saw it, 499 if it left
  std::optional<std::uint8_t> grpc_status;  ///< of a gRPC call
  Duration duration{};                      ///< from its first byte to the response's last
  std::optional<Duration> first_byte;       ///< from its first byte to the response's beginning
  Duration waited{};                        ///< in the pool's queue; counted if there is a pool
  std::optional<Duration> overhead;         ///< time in evenkeel alone, before the last attempt
  std::uint64_t request_bytes = 0;          ///< of the body
  std::uint64_t response_bytes = 0;
  ObservedTrace trace{};  ///< and when it has ended
};

/// The metrics of one worker. Each is made on first use and never moves: a plan may keep its
/// address as long as its LabelUses live.
///
/// Thread: one worker's; the const functions and `clear`: any.
class alignas(64) WorkerMetrics {
 public:
  PoolMetrics& pool(std::uint32_t index) { return pools_.at(index); }
  ListenerMetrics& listener(std::uint32_t index) { return listeners_.at(index); }
  TenantMetrics& tenant(std::uint32_t index) { return tenants_.at(index); }
  BackendMetrics& backend(std::uint32_t index) { return backends_.at(index); }
  /// `model`: of LabelIndex.
  ModelMetrics& model(std::uint32_t pool, std::uint32_t model) {
    return models_.at(pool).at(model);
  }
  StatusCounters& requests(std::uint32_t route, std::uint32_t pool) {
    return requests_.at(route).at(pool);
  }
  GrpcStatusCounters& grpc(std::uint32_t route, std::uint32_t pool) {
    return grpc_.at(route).at(pool);
  }

  /// Counts a request that has ended. About 180 instructions, no system call.
  void count(const RequestRecord& request);
  /// Counts a failed request, in addition to `count`. `pool` 0: it never reached one.
  void count_error(std::uint32_t pool, Fault fault) { pools_.at(pool).errors.count(fault); }
  void observe_pick(Duration duration) { pick_.observe(duration); }
  /// Clears these labels, on the terms of MetricsRegistry.
  void clear(const ForgottenLabels& forgotten);

  InspectionMetrics& inspection() { return inspection_; }
  const InspectionMetrics& inspection() const { return inspection_; }
  /// The last requests to models.
  RecentRequests& recent_requests() { return recent_requests_; }
  const RecentRequests& recent_requests() const { return recent_requests_; }
  /// The last other requests that failed.
  RecentRequests& recent_failures() { return recent_failures_; }
  const RecentRequests& recent_failures() const { return recent_failures_; }
  SpanQueue& spans() { return spans_; }
  const SpanQueue& spans() const { return spans_; }
  ReplayMetrics& replay() { return replay_; }
  const ReplayMetrics& replay() const { return replay_; }

  const PoolMetrics* find_pool(std::uint32_t index) const { return pools_.find(index); }
  const ListenerMetrics* find_listener(std::uint32_t index) const { return listeners_.find(index); }
  const TenantMetrics* find_tenant(std::uint32_t index) const { return tenants_.find(index); }
  const BackendMetrics* find_backend(std::uint32_t index) const { return backends_.find(index); }
  const ModelMetrics* find_model(std::uint32_t pool, std::uint32_t model) const {
    const auto* row = models_.find(pool);
    return row == nullptr ? nullptr : row->find(model);
  }
  /// Calls `visit` with the metrics of each model that a pool has served.
  template <class Visit>
  void each_model(std::uint32_t pool, Visit visit) const {
    const auto* row = models_.find(pool);
    if (row != nullptr) row->each(visit);
  }
  const StatusCounters* find_requests(std::uint32_t route, std::uint32_t pool) const {
    const auto* row = requests_.find(route);
    return row == nullptr ? nullptr : row->find(pool);
  }
  /// Null if no call has ended yet.
  const GrpcStatusCounters* find_grpc(std::uint32_t route, std::uint32_t pool) const {
    const auto* row = grpc_.find(route);
    return row == nullptr ? nullptr : row->find(pool);
  }
  std::uint64_t request_bytes() const { return request_bytes_.value(); }
  std::uint64_t response_bytes() const { return response_bytes_.value(); }
  const Histogram<internal_bounds>& overhead() const { return overhead_; }
  const Histogram<internal_bounds>& pick() const { return pick_; }

 private:
  [[gnu::noinline]] static void keep_exemplars(PoolMetrics& metrics, const RequestRecord& request);

  Counter request_bytes_;
  Counter response_bytes_;
  InspectionMetrics inspection_;
  ReplayMetrics replay_;
  Histogram<internal_bounds> overhead_;
  Histogram<internal_bounds> pick_;
  ChunkedArray<PoolMetrics> pools_;
  // The responses by route, then by pool: most routes use few of the pools.
  ChunkedArray<SparseArray<StatusCounters>> requests_;
  ChunkedArray<SparseArray<GrpcStatusCounters>> grpc_;
  ChunkedArray<ListenerMetrics> listeners_;
  ChunkedArray<BackendMetrics> backends_;
  ChunkedArray<TenantMetrics> tenants_;
  RecentRequests recent_requests_;
  RecentRequests recent_failures_;
  SpanQueue spans_;
  ChunkedArray<SparseArray<ModelMetrics>> models_;  // by pool, then by model
};

/// The metrics of one backend over all workers.
struct BackendTotals {
  std::int64_t links_busy = 0;
  std::int64_t links_idle = 0;
  std::array<std::uint64_t, 5> status_classes{};
  HistogramTotals first_byte;
  HistogramTotals latency;
  HistogramTotals per_output_token;
  std::array<std::uint64_t, token_direction_count> tokens{};
};

/// The metrics of one tenant over all workers.
struct TenantTotals {
  std::uint64_t requests = 0;
  std::array<std::uint64_t, token_direction_count> tokens{};
  std::int64_t in_flight = 0;
  std::int64_t waiting = 0;
};

/// The metrics of all workers and the names that label them.
class MetricsRegistry {
 public:
  explicit MetricsRegistry(unsigned workers);

  unsigned size() const { return static_cast<unsigned>(workers_.size()); }
  WorkerMetrics& worker_metrics(unsigned worker) { return *workers_[worker]; }
  const WorkerMetrics& worker_metrics(unsigned worker) const { return *workers_[worker]; }
  LabelIndex& label_index() { return label_index_; }
  const LabelIndex& label_index() const { return label_index_; }

  /// What came of the spans of all workers.
  SpanExportCounters& span_export() { return span_export_; }
  const SpanExportCounters& span_export() const { return span_export_; }
  /// Spans that were lost, over all workers. Thread: any.
  std::uint64_t lost_spans(SpanLoss loss) const;

  /// Thread: any.
  BackendTotals backend_totals(std::uint32_t index) const;
  /// Thread: any.
  TenantTotals tenant_totals(std::uint32_t index) const;
  /// Requests sent to this pool that have not ended, over all workers. Thread: any.
  std::int64_t in_flight(std::uint32_t pool) const;
  std::int64_t waiting(std::uint32_t pool) const;
  /// Open connections over all workers. Thread: any.
  std::int64_t connections(std::uint32_t listener) const;

  /// Clears what was counted there, before the indices get other names. Nothing counts there
  /// meanwhile. Thread: any, one at a time.
  void clear(const ForgottenLabels& forgotten);

 private:
  LabelIndex label_index_{this};
  SpanExportCounters span_export_;
  std::vector<std::unique_ptr<WorkerMetrics>> workers_;
};

}  // namespace evenkeel
