#include "evenkeel/stats/worker_families.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "evenkeel/stats/fault_labels.h"
#include "process_metrics.h"
#include "response_metrics.h"
#include "tenant_metrics.h"

namespace evenkeel {
namespace {

/// The counters of all workers, summed.
class WorkerFamilies {
 public:
  explicit WorkerFamilies(const MetricsRegistry& metrics_registry)
      : metrics_registry_(metrics_registry), names_(metrics_registry.label_index().view()) {}

  const LabelIndex::View& names() const { return names_; }

  template <class Value>
  auto sum(Value value) const {
    decltype(value(metrics_registry_.worker_metrics(0))) total{};
    for (unsigned i = 0; i < metrics_registry_.size(); ++i)
      total += value(metrics_registry_.worker_metrics(i));
    return total;
  }

  /// One histogram, summed over the workers; `find` gives null where a worker has none.
  template <class Find>
  HistogramTotals merged(Find find) const {
    HistogramTotals totals;
    std::remove_cvref_t<decltype(*find(metrics_registry_.worker_metrics(0)))>().add_to(totals);
    for (unsigned i = 0; i < metrics_registry_.size(); ++i) {
      if (const auto* histogram = find(metrics_registry_.worker_metrics(i)))
        histogram->add_to(totals);
    }
    return totals;
  }

  template <auto member>
  HistogramTotals merged_of_pool(std::uint32_t pool) const {
    return merged([pool](const WorkerMetrics& worker_metrics) {
      const PoolMetrics* metrics = worker_metrics.find_pool(pool);
      return metrics == nullptr ? nullptr : &(metrics->*member);
    });
  }

  std::uint64_t errors_of_pool(std::uint32_t pool, Fault fault,
                               FaultCounters PoolMetrics::* which) const {
    return sum([=](const WorkerMetrics& worker_metrics) {
      const PoolMetrics* metrics = worker_metrics.find_pool(pool);
      return metrics == nullptr ? std::uint64_t{0} : (metrics->*which).value(fault);
    });
  }

  /// One set of counters of all workers that have it; `find` gives null where a worker has none.
  template <class Find>
  auto found(Find find) const {
    std::vector<decltype(find(metrics_registry_.worker_metrics(0)))> all;
    for (unsigned i = 0; i < metrics_registry_.size(); ++i) {
      if (const auto* counters = find(metrics_registry_.worker_metrics(i))) all.push_back(counters);
    }
    return all;
  }

  template <class Each>
  void each_route_and_pool(Each each) const {
    for (std::uint32_t route = 0; route < names_.routes.size(); ++route) {
      if (!names_.has_route(route)) continue;
      for (std::uint32_t pool = 0; pool < names_.pools.size(); ++pool) {
        if (names_.has_pool(pool)) each(route, pool);
      }
    }
  }

  void add_requests(MetricsPage& page) const {
    page.counters("evenkeel_requests_total",
                  "Requests that have ended, by the status that the client saw.");
    each_route_and_pool(
        [&](std::uint32_t route, std::uint32_t pool) { add_answers(page, route, pool); });
  }

  void add_answers(MetricsPage& page, std::uint32_t route, std::uint32_t pool) const {
    const bool expected = expects_answers(route, pool);
    const auto of_workers = found([=](const WorkerMetrics& worker_metrics) {
      return worker_metrics.find_requests(route, pool);
    });
    const bool used = std::any_of(of_workers.begin(), of_workers.end(),
                                  [](const StatusCounters* counters) { return counters->used(); });
    if (!used && !expected) return;
    const auto answered = [&](int status) {
      std::uint64_t total = 0;
      for (const StatusCounters* counters : of_workers) total += counters->value(status);
      return total;
    };
    const Labels labels{{"pool", names_.pools[pool]}, {"route", names_.routes[route]}};
    const auto add = [&](int status) {
      const std::uint64_t count = answered(status);
      if (count == 0 && !(expected && is_expected(status))) return;
      page.add(labels, {"code", std::to_string(status)}, count);
    };
    if (answered(0) != 0) add(0);
    for (int status = 100; status < 600; ++status) add(status);
  }

  /// Exports every status of a route and pool once one of them was seen.
  void add_grpc(MetricsPage& page) const {
    page.counters("evenkeel_grpc_responses_total",
                  "gRPC calls that have ended, by the grpc-status that the client saw.");
    each_route_and_pool(
        [&](std::uint32_t route, std::uint32_t pool) { add_grpc_answers(page, route, pool); });
  }

  void add_grpc_answers(MetricsPage& page, std::uint32_t route, std::uint32_t pool) const {
    std::array<std::uint64_t, GrpcStatusCounters::statuses + 1> counts{};
    for (const GrpcStatusCounters* counters : found([=](const WorkerMetrics& worker_metrics) {
           return worker_metrics.find_grpc(route, pool);
         })) {
      for (std::size_t status = 0; status < counts.size(); ++status)
        counts[status] += counters->value(status);
    }
    if (std::count(counts.begin(), counts.end(), 0) == std::ssize(counts)) return;
    const Labels labels{{"pool", names_.pools[pool]}, {"route", names_.routes[route]}};
    for (std::size_t status = 0; status < counts.size(); ++status) {
      const bool known = status < GrpcStatusCounters::statuses;
      page.add(labels, {"grpc_status", known ? std::to_string(status) : "other"}, counts[status]);
    }
  }

  /// True if series of the route and pool are exported with 0 before there are any answers.
  bool expects_answers(std::uint32_t route, std::uint32_t pool) const {
    if (route == 0 && pool == 0) return true;
    return std::ranges::binary_search(names_.route_pools, std::pair(route, pool));
  }
  /// True for the statuses that alerts ask for.
  static bool is_expected(int status) {
    static constexpr int expected[] = {200, 400, 404, 429, 499, 500, 502, 503, 504};
    return std::ranges::binary_search(expected, status);
  }

  template <class Each>
  void each_pool(Each each) const {
    for (std::uint32_t i = 1; i < names_.pools.size(); ++i) {
      if (names_.has_pool(i)) each(i, Labels{{"pool", names_.pools[i]}});
    }
  }

  void add_pools(MetricsPage& page) const {
    page.histograms("evenkeel_request_duration_seconds",
                    "Time from a request's first byte to the last byte of its response.");
    page.add({{"pool", ""}}, merged_of_pool<&PoolMetrics::duration>(0));
    each_pool([&](std::uint32_t pool, const Labels& labels) {
      page.add(labels, merged_of_pool<&PoolMetrics::duration>(pool));
    });
    page.histograms("evenkeel_time_to_first_byte_seconds",
                    "Time from a request's first byte to the beginning of its response: the first "
                    "output of a model's stream, the first byte of another, or the head.");
    each_pool([&](std::uint32_t pool, const Labels& labels) {
      page.add(labels, merged_of_pool<&PoolMetrics::first_byte>(pool));
    });
    page.histograms("evenkeel_wait_seconds", "Time that a request waited in its pool's queue.");
    each_pool([&](std::uint32_t pool, const Labels& labels) {
      page.add(labels, merged_of_pool<&PoolMetrics::wait>(pool));
    });
    page.gauges("evenkeel_requests_in_flight", "Requests routed to the pool that have not ended.");
    each_pool([&](std::uint32_t pool, const Labels& labels) {
      page.add(labels, metrics_registry_.in_flight(pool) - metrics_registry_.waiting(pool));
    });
    page.gauges("evenkeel_requests_waiting", "Requests that wait in a pool's queue.");
    each_pool([&](std::uint32_t pool, const Labels& labels) {
      page.add(labels, metrics_registry_.waiting(pool));
    });
    add_pool_counter(page, "evenkeel_fallbacks_total",
                     "Requests that the pool could not take and its fallback got.",
                     &PoolMetrics::fallbacks);
    add_pool_counter(page, "evenkeel_picker_moved_total",
                     "Requests that a data plane sent to another backend than was picked for it.",
                     &PoolMetrics::moved_picks);
    add_pool_counter(page, "evenkeel_cache_hits_total",
                     "Requests that got an answer that was kept, which was still to be used.",
                     &PoolMetrics::cache_hits);
    add_pool_counter(page, "evenkeel_cache_stale_total",
                     "Requests that got an answer that was kept for longer than `ttl`, since no "
                     "backend answered.",
                     &PoolMetrics::cache_stale);
    add_pool_counter(page, "evenkeel_cache_misses_total",
                     "Requests whose answer may be kept, and was not there.",
                     &PoolMetrics::cache_misses);
    add_pool_counter(page, "evenkeel_coalesced_total",
                     "Requests that got the answer to an identical one in flight.",
                     &PoolMetrics::coalesced);
    add_mirrors(page);
    add_batches(page);
  }

  std::uint64_t sum_of_batches(std::uint32_t pool, Counter BatchingMetrics::* counter) const {
    return sum([pool, counter](const WorkerMetrics& worker_metrics) {
      const PoolMetrics* metrics = worker_metrics.find_pool(pool);
      return metrics == nullptr ? std::uint64_t{0} : (metrics->batching.*counter).value();
    });
  }

  /// Exports the batches of a pool once there was one.
  void add_batches(MetricsPage& page) const {
    const auto is_used = [&](std::uint32_t pool) {
      return sum_of_batches(pool, &BatchingMetrics::requests) != 0;
    };
    static constexpr std::pair<const char*, Counter BatchingMetrics::*> reasons[] = {
        {"idle", &BatchingMetrics::idle},
        {"size", &BatchingMetrics::full},
        {"wait", &BatchingMetrics::waited},
    };
    page.counters("evenkeel_batches_total",
                  "Requests that the pool's backends got for one or more of clients, by what they "
                  "were sent for.");
    each_pool([&](std::uint32_t pool, const Labels& labels) {
      if (!is_used(pool)) return;
      for (const auto& [reason, counter] : reasons)
        page.add(labels, {"reason", reason}, sum_of_batches(pool, counter));
    });
    const auto add = [&](std::string_view name, std::string_view help,
                         Counter BatchingMetrics::* counter) {
      page.counters(name, help);
      each_pool([&](std::uint32_t pool, const Labels& labels) {
        if (is_used(pool)) page.add(labels, sum_of_batches(pool, counter));
      });
    };
    add("evenkeel_batched_requests_total", "Requests of clients in the pool's batches.",
        &BatchingMetrics::requests);
    add("evenkeel_batched_inputs_total", "Inputs in the pool's batches.", &BatchingMetrics::inputs);
    add("evenkeel_batch_splits_total",
        "Requests of clients that were sent again by themselves, because the answer to their batch "
        "was an error that one of them may have caused, or could not be taken apart.",
        &BatchingMetrics::split);
  }

  /// Exports the copies for a pool once there was one, also one that was not sent.
  void add_mirrors(MetricsPage& page) const {
    const auto sum_of = [&](std::uint32_t pool, auto MirrorMetrics::* member) {
      return sum([pool, member](const WorkerMetrics& worker_metrics) {
        const PoolMetrics* metrics = worker_metrics.find_pool(pool);
        return metrics == nullptr ? 0 : (metrics->mirror.*member).value();
      });
    };
    static constexpr std::pair<const char*, Counter MirrorMetrics::*> results[] = {
        {"answered", &MirrorMetrics::answered},   {"failed", &MirrorMetrics::failed},
        {"too_many", &MirrorMetrics::excess},     {"body_not_held", &MirrorMetrics::unread},
        {"no_memory", &MirrorMetrics::no_memory},
    };
    const auto is_used = [&](std::uint32_t pool) {
      return sum_of(pool, &MirrorMetrics::in_flight) != 0 ||
             std::ranges::any_of(results,
                                 [&](const auto& each) { return sum_of(pool, each.second) != 0; });
    };
    page.counters("evenkeel_mirrored_requests_total",
                  "Copies of requests for the pool as a `mirror`, by what became of them.");
    each_pool([&](std::uint32_t pool, const Labels& labels) {
      if (!is_used(pool)) return;
      for (const auto& [result, counter] : results)
        page.add(labels, {"result", result}, sum_of(pool, counter));
    });
    page.gauges("evenkeel_mirrored_requests_in_flight",
                "Copies of requests that the pool has got as a `mirror` and that have not ended.");
    each_pool([&](std::uint32_t pool, const Labels& labels) {
      if (is_used(pool)) page.add(labels, sum_of(pool, &MirrorMetrics::in_flight));
    });
  }

  void add_pool_counter(MetricsPage& page, std::string_view name, std::string_view help,
                        Counter PoolMetrics::* counter) const {
    page.counters(name, help);
    each_pool([&](std::uint32_t pool, const Labels& labels) {
      page.add(labels, sum([pool, counter](const WorkerMetrics& worker_metrics) {
                 const PoolMetrics* metrics = worker_metrics.find_pool(pool);
                 return metrics == nullptr ? std::uint64_t{0} : (metrics->*counter).value();
               }));
    });
  }

  void add_faults(MetricsPage& page) const {
    page.counters("evenkeel_errors_total",
                  "Requests that failed, by reason, and by the side that caused it.");
    for (std::uint32_t pool = 0; pool < names_.pools.size(); ++pool) {
      if (!names_.has_pool(pool)) continue;
      each_fault([&](Fault fault) {
        if (fault == Fault::server_error) return;  // of attempts alone
        page.add({{"pool", names_.pools[pool]}, {"reason", to_string(fault)}},
                 {"side", side_of(fault)}, errors_of_pool(pool, fault, &PoolMetrics::errors));
      });
    }
    page.counters("evenkeel_retries_total",
                  "Additional attempts, by the reason why the previous one failed.");
    each_pool([&](std::uint32_t pool, const Labels& labels) {
      each_fault([&](Fault fault) {
        const std::uint64_t count = errors_of_pool(pool, fault, &PoolMetrics::retries);
        if (count == 0 && !is_attempt_fault(fault) && !is_of_replaced_answer(fault)) return;
        page.add(labels, {"reason", to_string(fault)}, count);
      });
    });
    page.counters("evenkeel_retry_budget_exhausted_total",
                  "Retries that the pool's budget did not allow.");
    each_pool([&](std::uint32_t pool, const Labels& labels) {
      page.add(labels, sum([pool](const WorkerMetrics& worker_metrics) {
                 const PoolMetrics* metrics = worker_metrics.find_pool(pool);
                 return metrics == nullptr ? std::uint64_t{0} : metrics->budget_exhausted.value();
               }));
    });
  }

  void add_totals(MetricsPage& page) const {
    page.histograms("evenkeel_overhead_seconds",
                    "Time in evenkeel from the end of a request's head until it is sent, without "
                    "queueing, connecting and failed attempts.");
    page.add(
        {}, merged([](const WorkerMetrics& worker_metrics) { return &worker_metrics.overhead(); }));
    page.histograms("evenkeel_pick_duration_seconds", "Time to pick a backend.");
    page.add({},
             merged([](const WorkerMetrics& worker_metrics) { return &worker_metrics.pick(); }));
    page.counters("evenkeel_request_bytes_total", "Bytes of request bodies.");
    page.add({}, sum([](const WorkerMetrics& worker_metrics) {
               return worker_metrics.request_bytes();
             }));
    page.counters("evenkeel_response_bytes_total", "Bytes of response bodies.");
    page.add({}, sum([](const WorkerMetrics& worker_metrics) {
               return worker_metrics.response_bytes();
             }));
    page.counters("evenkeel_inspected_requests_total",
                  "Requests to models whose bodies were to be inspected.");
    const auto add_inspected = [&](const char* result, Counter InspectionMetrics::* counter) {
      page.add({{"result", result}}, sum([counter](const WorkerMetrics& worker_metrics) {
                 return (worker_metrics.inspection().*counter).value();
               }));
    };
    add_inspected("complete", &InspectionMetrics::complete);
    add_inspected("partial", &InspectionMetrics::partial);
    add_inspected("malformed", &InspectionMetrics::malformed);
    add_inspected("unread", &InspectionMetrics::unread);
    page.gauges("evenkeel_replay_bytes", "Bytes of request bodies that are kept for retries.");
    page.add({}, sum([](const WorkerMetrics& worker_metrics) {
               return worker_metrics.replay().held.value();
             }));
    page.counters(
        "evenkeel_replay_overflows_total",
        "Request bodies that were not kept for a retry: too large, or memory was scarce.");
    page.add({}, sum([](const WorkerMetrics& worker_metrics) {
               return worker_metrics.replay().overflows.value();
             }));
  }

  void add_listeners(MetricsPage& page, const std::vector<std::string>& tls_listeners) const {
    page.gauges("evenkeel_connections", "Open connections of clients.");
    for (std::uint32_t i = 1; i < names_.listeners.size(); ++i) {
      page.add({{"listener", names_.listeners[i]}}, metrics_registry_.connections(i));
    }
    page.counters("evenkeel_connections_total", "Connections of clients that were accepted.");
    for (std::uint32_t i = 1; i < names_.listeners.size(); ++i) {
      page.add({{"listener", names_.listeners[i]}}, sum([i](const WorkerMetrics& worker_metrics) {
                 const ListenerMetrics* metrics = worker_metrics.find_listener(i);
                 return metrics == nullptr ? std::uint64_t{0} : metrics->opened.value();
               }));
    }
    add_shed(page);
    add_handshakes(page, tls_listeners);
  }

  void add_shed(MetricsPage& page) const {
    page.counters("evenkeel_connections_shed_total",
                  "Connections of clients that were closed to make room, by what was scarce.");
    for (std::uint32_t i = 1; i < names_.listeners.size(); ++i) {
      for (std::size_t reason = 0; reason < shed_reason_count; ++reason) {
        page.add({{"listener", names_.listeners[i]}},
                 {"reason", to_string(static_cast<ShedReason>(reason))},
                 sum([=](const WorkerMetrics& worker_metrics) {
                   const ListenerMetrics* metrics = worker_metrics.find_listener(i);
                   return metrics == nullptr ? std::uint64_t{0} : metrics->shed[reason].value();
                 }));
      }
    }
  }

  /// A listener without TLS has no series.
  void add_handshakes(MetricsPage& page, const std::vector<std::string>& tls_listeners) const {
    bool any = false;
    for (std::uint32_t i = 1; i < names_.listeners.size(); ++i) {
      std::array<std::uint64_t, tls_outcome_count> counts{};
      std::uint64_t all = 0;
      for (std::size_t outcome = 0; outcome < counts.size(); ++outcome) {
        counts[outcome] = sum([=](const WorkerMetrics& worker_metrics) {
          const ListenerMetrics* metrics = worker_metrics.find_listener(i);
          return metrics == nullptr ? std::uint64_t{0} : metrics->handshakes[outcome].value();
        });
        all += counts[outcome];
      }
      const bool uses_tls =
          std::ranges::find(tls_listeners, names_.listeners[i]) != tls_listeners.end();
      if (all == 0 && !uses_tls) continue;
      if (!std::exchange(any, true)) {
        page.counters("evenkeel_tls_handshakes_total",
                      "TLS handshakes of clients, by how they ended.");
      }
      const Labels labels{{"listener", names_.listeners[i]}};
      for (std::size_t outcome = 0; outcome < counts.size(); ++outcome) {
        page.add(labels, {"result", to_string(static_cast<TlsOutcome>(outcome))}, counts[outcome]);
      }
    }
  }

 private:
  const MetricsRegistry& metrics_registry_;
  LabelIndex::View names_;
};

}  // namespace

void add_request_families(MetricsPage& page, const MetricsRegistry& metrics_registry) {
  const WorkerFamilies families(metrics_registry);
  families.add_requests(page);
  families.add_grpc(page);
  families.add_pools(page);
}

namespace {

void add_span_families(MetricsPage& page, const MetricsRegistry& metrics_registry) {
  page.counters("evenkeel_trace_spans_exported_total", "Spans that the collector has taken.");
  page.add({}, metrics_registry.span_export().exported.value());
  page.counters("evenkeel_trace_spans_dropped_total", "Spans that were lost.");
  for (std::size_t i = 0; i < span_loss_count; ++i) {
    const auto loss = static_cast<SpanLoss>(i);
    page.add({{"reason", to_string(loss)}}, metrics_registry.lost_spans(loss));
  }
  page.counters("evenkeel_trace_export_failures_total",
                "Requests to the collector of traces that failed.");
  page.add({}, metrics_registry.span_export().failures.value());
}

}  // namespace

void add_further_families(MetricsPage& page, const MetricsRegistry& metrics_registry,
                          const std::vector<std::string>& tls_listeners) {
  const WorkerFamilies families(metrics_registry);
  families.add_faults(page);
  add_response_metrics(page, metrics_registry, families.names());
  add_tenant_metrics(page, metrics_registry, families.names());
  families.add_totals(page);
  families.add_listeners(page, tls_listeners);
  add_span_families(page, metrics_registry);
}

void add_process_families(MetricsPage& page) {
  const ProcessMetrics process = read_process_metrics();
  const auto gauge = [&](std::string_view name, std::string_view help,
                         const std::optional<double>& value) {
    if (!value) return;
    page.gauges(name, help);
    page.add({}, *value);
  };
  if (process.cpu_seconds) {
    page.counters("process_cpu_seconds_total", "User and system CPU time spent.");
    page.add({}, *process.cpu_seconds);
  }
  gauge("process_open_fds", "Open file descriptors.", process.open_fds);
  gauge("process_max_fds", "Limit of open file descriptors.", process.max_fds);
  gauge("process_virtual_memory_bytes", "Virtual memory.", process.virtual_bytes);
  gauge("process_resident_memory_bytes", "Resident memory.", process.resident_bytes);
  gauge("process_start_time_seconds", "When the process started, since the epoch.",
        process.start_time_seconds);
}

}  // namespace evenkeel
