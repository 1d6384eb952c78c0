#include "evenkeel/stats/exposition.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "page.h"
#include "process.h"

namespace evenkeel {
namespace {

#if defined(__clang__)
constexpr std::string_view compiler = "clang " __clang_version__;
#else
constexpr std::string_view compiler = "g++ " __VERSION__;
#endif

/// Faults for which a failed attempt may be followed by another: exported before they happen.
constexpr Fault attempt_faults[] = {Fault::connect_failed,  Fault::connect_timeout,
                                    Fault::tls_failed,      Fault::first_byte_timeout,
                                    Fault::idle_timeout,    Fault::backend_closed,
                                    Fault::backend_protocol};

bool of_attempt(Fault fault) {
  for (const Fault one : attempt_faults) {
    if (one == fault) return true;
  }
  return false;
}

template <class Each>
void each_fault(Each each) {
  for (int fault = 0; fault < fault_count; ++fault) each(static_cast<Fault>(fault));
}

/// All sheets, summed.
class Collected {
 public:
  Collected(const Sheets& sheets, const Readings& readings, std::string_view version)
      : sheets_(sheets), readings_(readings), version_(version), names_(sheets.names().view()) {}

  std::string text() const {
    Page page;
    add_requests(page);
    add_grpc(page);
    add_pools(page);
    add_totals(page);
    add_listeners(page);
    add_backends(page);
    add_daemon(page);
    add_process(page);
    return page.take();
  }

 private:
  template <class Value>
  auto sum(Value value) const {
    decltype(value(sheets_.sheet(0))) total{};
    for (unsigned i = 0; i < sheets_.size(); ++i) total += value(sheets_.sheet(i));
    return total;
  }

  /// The same histogram of every sheet; `find` gives null where a sheet has none.
  template <class Find>
  HistogramTotals merged(Find find) const {
    HistogramTotals totals;
    std::remove_cvref_t<decltype(*find(sheets_.sheet(0)))>().add_to(totals);
    for (unsigned i = 0; i < sheets_.size(); ++i) {
      if (const auto* histogram = find(sheets_.sheet(i))) histogram->add_to(totals);
    }
    return totals;
  }

  template <auto member>
  HistogramTotals merged_of_pool(std::uint32_t pool) const {
    return merged([pool](const Sheet& sheet) {
      const PoolCells* cells = sheet.find_pool(pool);
      return cells == nullptr ? nullptr : &(cells->*member);
    });
  }

  std::uint64_t errors_of_pool(std::uint32_t pool, Fault fault,
                               FaultCounters PoolCells::* which) const {
    return sum([=](const Sheet& sheet) {
      const PoolCells* cells = sheet.find_pool(pool);
      return cells == nullptr ? std::uint64_t{0} : (cells->*which).value(fault);
    });
  }

  std::uint64_t answered(std::uint32_t route, std::uint32_t pool, int status) const {
    return sum([=](const Sheet& sheet) {
      const StatusCounters* counters = sheet.find_requests(route, pool);
      return counters == nullptr ? std::uint64_t{0} : counters->value(status);
    });
  }

  void add_requests(Page& page) const {
    page.counters("requests_total", "Requests that have ended, by the status that the client saw.");
    for (std::uint32_t route = 0; route < names_.routes.size(); ++route) {
      for (std::uint32_t pool = 0; pool < names_.pools.size(); ++pool) {
        add_answers(page, route, pool);
      }
    }
  }

  void add_answers(Page& page, std::uint32_t route, std::uint32_t pool) const {
    const int expected = expected_status(route, pool);
    const bool used = sum([=](const Sheet& sheet) {
      const StatusCounters* counters = sheet.find_requests(route, pool);
      return counters != nullptr && counters->used() ? 1 : 0;
    });
    if (!used && expected == 0) return;
    const Labels labels{{"pool", names_.pools[pool]}, {"route", names_.routes[route]}};
    const auto add = [&](int status) {
      const std::uint64_t count = answered(route, pool, status);
      if (count == 0 && status != expected) return;
      page.add(labels, {"code", std::to_string(status)}, count);
    };
    if (answered(route, pool, 0) != 0) add(0);
    for (int status = 100; status < 600; ++status) add(status);
  }

  /// All statuses of a route and pool together, once one of them was seen.
  void add_grpc(Page& page) const {
    page.counters("grpc_responses_total",
                  "gRPC calls that have ended, by the grpc-status that the client saw.");
    for (std::uint32_t route = 0; route < names_.routes.size(); ++route) {
      for (std::uint32_t pool = 0; pool < names_.pools.size(); ++pool) {
        add_grpc_answers(page, route, pool);
      }
    }
  }

  void add_grpc_answers(Page& page, std::uint32_t route, std::uint32_t pool) const {
    std::array<std::uint64_t, GrpcCounters::statuses + 1> counts{};
    for (std::size_t status = 0; status < counts.size(); ++status) {
      counts[status] = sum([=](const Sheet& sheet) {
        const GrpcCounters* counters = sheet.find_grpc(route, pool);
        return counters == nullptr ? std::uint64_t{0} : counters->value(status);
      });
    }
    if (std::count(counts.begin(), counts.end(), 0) == std::ssize(counts)) return;
    const Labels labels{{"pool", names_.pools[pool]}, {"route", names_.routes[route]}};
    for (std::size_t status = 0; status < counts.size(); ++status) {
      const bool known = status < GrpcCounters::statuses;
      page.add(labels, {"grpc_status", known ? std::to_string(status) : "other"}, counts[status]);
    }
  }

  /// What is exported before it happens; 0: nothing.
  int expected_status(std::uint32_t route, std::uint32_t pool) const {
    if (route == 0 && pool == 0) return 404;
    const bool leads =
        std::binary_search(names_.leads.begin(), names_.leads.end(), std::pair(route, pool));
    return leads ? 200 : 0;
  }

  template <class Each>
  void each_pool(Each each) const {
    for (std::uint32_t i = 1; i < names_.pools.size(); ++i) {
      each(i, Labels{{"pool", names_.pools[i]}});
    }
  }

  void add_pools(Page& page) const {
    page.histograms("request_duration_seconds",
                    "Time from a request's first byte to the last byte of its answer.");
    page.add({{"pool", ""}}, merged_of_pool<&PoolCells::duration>(0));
    each_pool([&](std::uint32_t pool, const Labels& labels) {
      page.add(labels, merged_of_pool<&PoolCells::duration>(pool));
    });
    page.histograms("time_to_first_byte_seconds",
                    "Time from a request's first byte to the head of its answer.");
    each_pool([&](std::uint32_t pool, const Labels& labels) {
      page.add(labels, merged_of_pool<&PoolCells::first_byte>(pool));
    });
    page.histograms("wait_seconds", "Time that a request stood in its pool's line.");
    each_pool([&](std::uint32_t pool, const Labels& labels) {
      page.add(labels, merged_of_pool<&PoolCells::wait>(pool));
    });
    page.gauges("requests_in_flight", "Requests picked for a backend of the pool and not ended.");
    each_pool([&](std::uint32_t pool, const Labels& labels) {
      page.add(labels, sheets_.in_flight(pool) - sheets_.waiting(pool));
    });
    page.gauges("requests_waiting", "Requests that stand in a pool's line.");
    each_pool(
        [&](std::uint32_t pool, const Labels& labels) { page.add(labels, sheets_.waiting(pool)); });
    add_faults(page);
  }

  void add_faults(Page& page) const {
    page.counters("errors_total", "Requests that failed, by reason.");
    for (std::uint32_t pool = 0; pool < names_.pools.size(); ++pool) {
      const Labels labels{{"pool", names_.pools[pool]}};
      each_fault([&](Fault fault) {
        page.add(labels, {"reason", word_of(fault)},
                 errors_of_pool(pool, fault, &PoolCells::errors));
      });
    }
    page.counters("retries_total",
                  "Further attempts, by the reason for which the one before failed.");
    each_pool([&](std::uint32_t pool, const Labels& labels) {
      each_fault([&](Fault fault) {
        const std::uint64_t count = errors_of_pool(pool, fault, &PoolCells::retries);
        if (count == 0 && !of_attempt(fault)) return;
        page.add(labels, {"reason", word_of(fault)}, count);
      });
    });
  }

  void add_totals(Page& page) const {
    page.histograms("overhead_seconds",
                    "Time from a request's head being in to its being given to a link, without "
                    "waiting, connecting and failed attempts.");
    page.add({}, merged([](const Sheet& sheet) { return &sheet.overhead(); }));
    page.histograms("pick_duration_seconds", "Time to pick a backend.");
    page.add({}, merged([](const Sheet& sheet) { return &sheet.pick(); }));
    page.counters("request_bytes_total", "Bytes of request bodies.");
    page.add({}, sum([](const Sheet& sheet) { return sheet.request_bytes(); }));
    page.counters("response_bytes_total", "Bytes of response bodies.");
    page.add({}, sum([](const Sheet& sheet) { return sheet.response_bytes(); }));
  }

  void add_listeners(Page& page) const {
    page.gauges("connections", "Open connections of clients.");
    for (std::uint32_t i = 1; i < names_.listeners.size(); ++i) {
      page.add({{"listener", names_.listeners[i]}}, sheets_.connections(i));
    }
    page.counters("connections_total", "Connections of clients that were accepted.");
    for (std::uint32_t i = 1; i < names_.listeners.size(); ++i) {
      page.add({{"listener", names_.listeners[i]}}, sum([i](const Sheet& sheet) {
                 const ListenerCells* cells = sheet.find_listener(i);
                 return cells == nullptr ? std::uint64_t{0} : cells->opened.value();
               }));
    }
    add_handshakes(page);
  }

  /// Of a listener in the clear there are none.
  void add_handshakes(Page& page) const {
    bool any = false;
    for (std::uint32_t i = 1; i < names_.listeners.size(); ++i) {
      std::array<std::uint64_t, tls_outcome_count> counts{};
      std::uint64_t all = 0;
      for (std::size_t outcome = 0; outcome < counts.size(); ++outcome) {
        counts[outcome] = sum([=](const Sheet& sheet) {
          const ListenerCells* cells = sheet.find_listener(i);
          return cells == nullptr ? std::uint64_t{0} : cells->handshakes[outcome].value();
        });
        all += counts[outcome];
      }
      if (all == 0) continue;
      if (!std::exchange(any, true)) {
        page.counters("tls_handshakes_total", "TLS handshakes of clients, by how they ended.");
      }
      const Labels labels{{"listener", names_.listeners[i]}};
      for (std::size_t outcome = 0; outcome < counts.size(); ++outcome) {
        page.add(labels, {"result", word_of(static_cast<TlsOutcome>(outcome))}, counts[outcome]);
      }
    }
  }

  void add_backends(Page& page) const {
    std::vector<Labels> labels;
    for (const auto& each : readings_.backends) {
      labels.push_back({{"pool", each.pool}, {"backend", each.backend}});
    }
    const auto each_backend = [&](auto add) {
      for (std::size_t i = 0; i < labels.size(); ++i) add(labels[i], readings_.backends[i]);
    };
    page.gauges("backend_up", "1 when a backend may be given requests.");
    each_backend([&](const Labels& own, const BackendReading& reading) {
      page.add(own, std::uint64_t{reading.up});
    });
    page.gauges("backend_state", "1 for the state that a backend is in.");
    each_backend([&](const Labels& own, const BackendReading& reading) {
      for (const std::string_view state : backend_states) {
        page.add(own, {"state", state}, std::uint64_t{reading.state == state});
      }
    });
    page.gauges("backend_in_flight", "Requests that a backend holds.");
    each_backend([&](const Labels& own, const BackendReading& reading) {
      page.add(own, reading.in_flight);
    });
    page.counters("backend_picks_total", "How often a backend was picked.");
    each_backend(
        [&](const Labels& own, const BackendReading& reading) { page.add(own, reading.picks); });
    page.counters("backend_errors_total", "Attempts that failed at a backend, by reason.");
    each_backend([&](const Labels& own, const BackendReading& reading) {
      each_fault([&](Fault fault) {
        const std::uint64_t count = reading.errors[static_cast<std::size_t>(fault)];
        if (count == 0 && !of_attempt(fault)) return;
        page.add(own, {"reason", word_of(fault)}, count);
      });
    });
    page.gauges("backend_links", "Connections to a backend: busy with a request, or idle.");
    each_backend([&](const Labels& own, const BackendReading& reading) {
      page.add(own, {"state", "busy"}, links(reading.totals.links_busy));
      page.add(own, {"state", "idle"}, links(reading.totals.links_idle));
    });
    page.histograms(
        "backend_latency_seconds",
        "Time from the end of a request sent to a backend to the last byte of its answer.");
    each_backend([&](const Labels& own, const BackendReading& reading) {
      page.add(own, reading.totals.latency);
    });
    add_checks(page, each_backend);
    add_polled(page, each_backend);
  }

  /// Sums over workers of gauges that each of them moves in its own time: below 0 for a moment,
  /// when the one that goes is read before the one that comes.
  static std::uint64_t links(std::int64_t count) {
    return count < 0 ? 0 : static_cast<std::uint64_t>(count);
  }

  template <class EachBackend>
  static void add_checks(Page& page, const EachBackend& each_backend) {
    page.counters("backend_health_checks_total", "Health checks of a backend, by result.");
    each_backend([&](const Labels& own, const BackendReading& reading) {
      for (const auto& [result, count] : reading.checks) page.add(own, {"result", result}, count);
    });
  }

  /// What is not known has no series.
  template <class EachBackend>
  static void add_polled(Page& page, const EachBackend& each_backend) {
    struct Family {
      std::string_view name;
      std::string_view help;
      double PolledReading::* value;
    };
    static constexpr Family families[] = {
        {"backend_polled_age_seconds", "Age of what a backend's engine and GPU said last.",
         &PolledReading::age_seconds},
        {"backend_running_requests", "Requests that a backend's engine works on, as it says.",
         &PolledReading::running},
        {"backend_waiting_requests", "Requests that wait in a backend's engine, as it says.",
         &PolledReading::waiting},
        {"backend_kv_cache_usage_ratio", "How full the KV cache of a backend is, as it says.",
         &PolledReading::kv_cache_ratio},
        {"backend_gpu_utilization_ratio", "How busy a backend's GPUs are, as they say.",
         &PolledReading::gpu_utilization_ratio},
        {"backend_gpu_memory_used_bytes", "Memory in use on a backend's GPUs, as they say.",
         &PolledReading::gpu_memory_used_bytes},
        {"backend_gpu_memory_total_bytes", "Memory of a backend's GPUs, as they say.",
         &PolledReading::gpu_memory_total_bytes},
    };
    for (const Family& family : families) {
      page.gauges(family.name, family.help);
      each_backend([&](const Labels& own, const BackendReading& reading) {
        const double value = reading.polled.*family.value;
        if (!std::isnan(value)) page.add(own, value);
      });
    }
  }

  void add_daemon(Page& page) const {
    page.gauges("event_loop_lag_seconds",
                "Longest turn of any worker's event loop since the last scrape.");
    page.add({}, seconds_of(readings_.loop_lag));
    page.counters("access_log_dropped_total", "Access log lines that were lost.");
    page.add({}, readings_.access_log_dropped);
    page.gauges("config_last_reload_successful", "1 when the last reload was accepted.");
    page.add({}, std::uint64_t{readings_.config_reload_ok});
    if (readings_.config_loaded.time_since_epoch().count() != 0) {
      page.gauges("config_last_reload_success_timestamp_seconds",
                  "When the running configuration was loaded.");
      page.add({},
               std::chrono::duration<double>(readings_.config_loaded.time_since_epoch()).count());
    }
    page.gauges("build_info", "1, with what was built and by what.");
    page.add({{"version", version_}, {"compiler", compiler}}, std::uint64_t{1});
  }

  static void add_process(Page& page) {
    const ProcessReading process = read_process();
    const auto gauge = [&](std::string_view name, std::string_view help,
                           const std::optional<double>& value) {
      if (!value) return;
      page.plain_gauges(name, help);
      page.add({}, *value);
    };
    if (process.cpu_seconds) {
      page.plain_counters("process_cpu_seconds_total", "User and system CPU time spent.");
      page.add({}, *process.cpu_seconds);
    }
    gauge("process_open_fds", "Open file descriptors.", process.open_fds);
    gauge("process_max_fds", "Limit of open file descriptors.", process.max_fds);
    gauge("process_virtual_memory_bytes", "Virtual memory.", process.virtual_bytes);
    gauge("process_resident_memory_bytes", "Resident memory.", process.resident_bytes);
    gauge("process_start_time_seconds", "When the process started, since the epoch.",
          process.start_time_seconds);
  }

  const Sheets& sheets_;
  const Readings& readings_;
  std::string_view version_;
  Names::View names_;
};

}  // namespace

std::string render_metrics(const Sheets& sheets, Source& source, std::string_view version) {
  const Readings readings = source.read();
  const Collected collected(sheets, readings, version);
  return collected.text();
}

}  // namespace evenkeel
