#include "evenkeel/stats/worker_metrics.h"

#include <algorithm>

namespace evenkeel {

StatusCounters::~StatusCounters() {
  for (auto& status_class : status_classes_) delete status_class.load(std::memory_order_relaxed);
}

std::uint64_t StatusCounters::value(int status) const {
  const auto status_class = static_cast<unsigned>(status) / 100 - 1;
  if (status_class >= status_classes_.size()) return other_.value();
  const StatusClass* block = status_classes_[status_class].load(std::memory_order_acquire);
  return block == nullptr ? 0 : (*block)[static_cast<unsigned>(status) % 100].value();
}

bool StatusCounters::used() const {
  for (const auto& status_class : status_classes_) {
    if (status_class.load(std::memory_order_relaxed) != nullptr) return true;
  }
  return other_.value() != 0;
}

StatusCounters::StatusClass* StatusCounters::make(std::size_t status_class) {
  auto made = std::make_unique<StatusClass>();
  // Release: a reader that sees the block sees its counters constructed.
  status_classes_[status_class].store(made.get(), std::memory_order_release);
  return made.release();
}

void StatusCounters::clear() {
  for (auto& status_class : status_classes_) {
    StatusClass* const block = status_class.load(std::memory_order_acquire);
    if (block == nullptr) continue;
    for (Counter& counter : *block) counter.clear();
  }
  other_.clear();
}

void MirrorMetrics::clear() {
  in_flight.clear();
  answered.clear();
  failed.clear();
  excess.clear();
  unread.clear();
  no_memory.clear();
}

void BatchingMetrics::clear() {
  idle.clear();
  full.clear();
  waited.clear();
  requests.clear();
  inputs.clear();
  split.clear();
}

void PoolMetrics::clear() {
  in_flight.clear();
  waiting.clear();
  duration.clear();
  first_byte.clear();
  wait.clear();
  errors.clear();
  retries.clear();
  budget_exhausted.clear();
  fallbacks.clear();
  moved_picks.clear();
  cache_hits.clear();
  cache_stale.clear();
  cache_misses.clear();
  coalesced.clear();
  mirror.clear();
  batching.clear();
}

void TenantMetrics::clear() {
  requests.clear();
  tokens.clear();
  in_flight.clear();
  waiting.clear();
}

void BackendMetrics::clear() {
  links_busy.clear();
  links_idle.clear();
  for (Counter& counter : status_classes) counter.clear();
  first_byte.clear();
  latency.clear();
  per_output_token.clear();
  tokens.clear();
}

namespace {

template <class Metrics>
void clear_all(ChunkedArray<Metrics>& metrics, const std::vector<std::uint32_t>& indices) {
  for (const std::uint32_t index : indices) {
    if (Metrics* const found = metrics.find(index)) found->clear();
  }
}

/// Removes the metrics of forgotten routes and pools; rows are by route, then by pool.
template <class Metrics>
void clear_rows(ChunkedArray<SparseArray<Metrics>>& rows, const ForgottenLabels& forgotten) {
  rows.for_each([&](std::uint32_t route, SparseArray<Metrics>& row) {
    const bool whole = std::ranges::binary_search(forgotten.routes, route);
    row.remove_if([&](std::uint32_t pool) {
      return whole || std::ranges::binary_search(forgotten.pools, pool);
    });
  });
}

}  // namespace

void WorkerMetrics::clear(const ForgottenLabels& forgotten) {
  clear_all(pools_, forgotten.pools);
  clear_all(backends_, forgotten.backends);
  clear_all(tenants_, forgotten.tenants);
  for (const std::uint32_t pool : forgotten.pools) {
    if (auto* const row = models_.find(pool)) row->remove_if([](std::uint32_t) { return true; });
  }
  if (forgotten.pools.empty() && forgotten.routes.empty()) return;
  clear_rows(requests_, forgotten);
  clear_rows(grpc_, forgotten);
}

void WorkerMetrics::count(const RequestRecord& request) {
  requests(request.route, request.pool).count(request.status);
  if (request.grpc_status) grpc(request.route, request.pool).count(*request.grpc_status);
  request_bytes_.add(request.request_bytes);
  response_bytes_.add(request.response_bytes);
  if (request.overhead) overhead_.observe(*request.overhead);

  PoolMetrics& metrics = pools_.at(request.pool);
  metrics.duration.observe(request.duration);
  if (request.first_byte) metrics.first_byte.observe(*request.first_byte);
  if (request.pool != 0) metrics.wait.observe(request.waited);
  if (!request.trace.trace_id.empty()) [[unlikely]]
    keep_exemplars(metrics, request);
}

void WorkerMetrics::keep_exemplars(PoolMetrics& metrics, const RequestRecord& request) {
  metrics.duration.keep_exemplar(request.duration, request.trace);
  if (request.first_byte) metrics.first_byte.keep_exemplar(*request.first_byte, request.trace);
  if (request.pool != 0) metrics.wait.keep_exemplar(request.waited, request.trace);
}

MetricsRegistry::MetricsRegistry(unsigned workers) {
  workers_.reserve(workers);
  for (unsigned i = 0; i < workers; ++i) workers_.push_back(std::make_unique<WorkerMetrics>());
}

void MetricsRegistry::clear(const ForgottenLabels& forgotten) {
  for (const auto& worker_metrics : workers_) worker_metrics->clear(forgotten);
}

std::uint64_t MetricsRegistry::lost_spans(SpanLoss loss) const {
  std::uint64_t sum = span_export_.lost[static_cast<std::size_t>(loss)].value();
  if (loss != SpanLoss::queue_full) return sum;
  for (const auto& worker : workers_) sum += worker->spans().dropped();
  return sum;
}

BackendTotals MetricsRegistry::backend_totals(std::uint32_t index) const {
  BackendTotals totals;
  // The buckets, in case no worker has a histogram.
  Histogram<first_byte_bounds>().add_to(totals.first_byte);
  Histogram<request_bounds>().add_to(totals.latency);
  Histogram<token_bounds>().add_to(totals.per_output_token);
  for (const auto& worker_metrics : workers_) {
    const BackendMetrics* metrics = worker_metrics->find_backend(index);
    if (metrics == nullptr) continue;
    totals.links_busy += metrics->links_busy.value();
    totals.links_idle += metrics->links_idle.value();
    for (std::size_t i = 0; i < totals.status_classes.size(); ++i) {
      totals.status_classes[i] += metrics->status_classes[i].value();
    }
    for (std::size_t i = 0; i < totals.tokens.size(); ++i) {
      totals.tokens[i] += metrics->tokens.value(static_cast<TokenDirection>(i));
    }
    metrics->first_byte.add_to(totals.first_byte);
    metrics->latency.add_to(totals.latency);
    metrics->per_output_token.add_to(totals.per_output_token);
  }
  return totals;
}

TenantTotals MetricsRegistry::tenant_totals(std::uint32_t index) const {
  TenantTotals totals;
  for (const auto& worker_metrics : workers_) {
    const TenantMetrics* metrics = worker_metrics->find_tenant(index);
    if (metrics == nullptr) continue;
    totals.requests += metrics->requests.value();
    for (std::size_t i = 0; i < totals.tokens.size(); ++i) {
      totals.tokens[i] += metrics->tokens.value(static_cast<TokenDirection>(i));
    }
    totals.in_flight += metrics->in_flight.value();
    totals.waiting += metrics->waiting.value();
  }
  return totals;
}

std::int64_t MetricsRegistry::in_flight(std::uint32_t pool) const {
  std::int64_t sum = 0;
  for (const auto& worker_metrics : workers_) {
    if (const PoolMetrics* metrics = worker_metrics->find_pool(pool))
      sum += metrics->in_flight.value();
  }
  return sum;
}

std::int64_t MetricsRegistry::waiting(std::uint32_t pool) const {
  std::int64_t sum = 0;
  for (const auto& worker_metrics : workers_) {
    if (const PoolMetrics* metrics = worker_metrics->find_pool(pool))
      sum += metrics->waiting.value();
  }
  return sum;
}

std::int64_t MetricsRegistry::connections(std::uint32_t listener) const {
  std::int64_t sum = 0;
  for (const auto& worker_metrics : workers_) {
    const ListenerMetrics* metrics = worker_metrics->find_listener(listener);
    if (metrics == nullptr) continue;
    const auto closed = static_cast<std::int64_t>(metrics->closed.value());
    sum += static_cast<std::int64_t>(metrics->opened.value()) - closed;
  }
  return sum;
}

}  // namespace evenkeel
