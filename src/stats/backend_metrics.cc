#include "backend_metrics.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string_view>

#include "fault_labels.h"

namespace evenkeel {
namespace {

/// Calls a function with each backend and its labels.
class EachBackend {
 public:
  explicit EachBackend(const std::vector<BackendSnapshot>& backends) : backends_(backends) {
    for (const auto& each : backends) {
      labels_.push_back({{"pool", each.pool}, {"backend", each.backend}});
    }
  }

  template <class Add>
  void operator()(Add add) const {
    for (std::size_t i = 0; i < labels_.size(); ++i) add(labels_[i], backends_[i]);
  }

 private:
  const std::vector<BackendSnapshot>& backends_;
  std::vector<Labels> labels_;
};

void add_states(MetricsPage& page, const EachBackend& each_backend) {
  page.gauges("evenkeel_backend_up", "1 if the backend may get requests.");
  each_backend([&](const Labels& own, const BackendSnapshot& backend) {
    page.add(own, std::uint64_t{backend.up});
  });
  page.gauges("evenkeel_backend_state", "1 for the state that a backend is in.");
  each_backend([&](const Labels& own, const BackendSnapshot& backend) {
    for (const std::string_view state : backend_states) {
      page.add(own, {"state", state}, std::uint64_t{backend.state == state});
    }
  });
}

/// The sum of links, at least 0: each worker moves its gauges in its own time, so the sum may be
/// below 0 for a moment.
std::uint64_t links(std::int64_t count) {
  return count < 0 ? 0 : static_cast<std::uint64_t>(count);
}

void add_traffic(MetricsPage& page, const EachBackend& each_backend) {
  page.gauges("evenkeel_backend_in_flight", "Requests in flight on a backend.");
  each_backend(
      [&](const Labels& own, const BackendSnapshot& backend) { page.add(own, backend.in_flight); });
  page.counters("evenkeel_backend_picks_total", "How often a backend was picked.");
  each_backend(
      [&](const Labels& own, const BackendSnapshot& backend) { page.add(own, backend.picks); });
  page.counters("evenkeel_backend_errors_total", "Attempts that failed at a backend, by reason.");
  each_backend([&](const Labels& own, const BackendSnapshot& backend) {
    each_fault([&](Fault fault) {
      const std::uint64_t count = backend.errors[static_cast<std::size_t>(fault)];
      if (count == 0 && !is_attempt_fault(fault)) return;
      page.add(own, {"reason", to_string(fault)}, count);
    });
    page.add(own, {"reason", "status_5xx"}, backend.failed_responses);
  });
  page.counters("evenkeel_backend_requests_total",
                "Requests that a backend answered, by the class of the status.");
  each_backend([&](const Labels& own, const BackendSnapshot& backend) {
    static constexpr std::string_view classes[] = {"1xx", "2xx", "3xx", "4xx", "5xx"};
    for (std::size_t i = 0; i < std::size(classes); ++i) {
      page.add(own, {"code_class", classes[i]}, backend.totals.status_classes[i]);
    }
  });
  page.gauges("evenkeel_backend_links", "Connections to a backend: busy with a request, or idle.");
  each_backend([&](const Labels& own, const BackendSnapshot& backend) {
    page.add(own, {"state", "busy"}, links(backend.totals.links_busy));
    page.add(own, {"state", "idle"}, links(backend.totals.links_idle));
  });
  page.histograms(
      "evenkeel_backend_time_to_first_byte_seconds",
      "Time from the end of a request sent to a backend to the beginning of its "
      "response: the first output of a model's stream, the first byte of another, or the "
      "head.");
  each_backend([&](const Labels& own, const BackendSnapshot& backend) {
    page.add(own, backend.totals.first_byte);
  });
  page.histograms(
      "evenkeel_backend_latency_seconds",
      "Time from the end of a request sent to a backend to the last byte of its response.");
  each_backend([&](const Labels& own, const BackendSnapshot& backend) {
    page.add(own, backend.totals.latency);
  });
  page.histograms("evenkeel_backend_time_per_output_token_seconds",
                  "Time between two tokens of a backend's streams, each measured about twice a "
                  "second.");
  each_backend([&](const Labels& own, const BackendSnapshot& backend) {
    page.add(own, backend.totals.per_output_token);
  });
  page.gauges("evenkeel_backend_slow",
              "1 for what a backend takes much longer for than the others of its pool.");
  each_backend([&](const Labels& own, const BackendSnapshot& backend) {
    for (const std::string_view part : slow_parts) {
      page.add(own, {"part", part}, std::uint64_t{backend.slow_part == part});
    }
  });
}

/// Adds nothing for a backend whose responses are not read.
void add_tokens(MetricsPage& page, const EachBackend& each_backend) {
  page.counters("evenkeel_backend_tokens_total",
                "Tokens that a backend's engine reported, by direction.");
  each_backend([&](const Labels& own, const BackendSnapshot& backend) {
    const auto& tokens = backend.totals.tokens;
    const bool none = std::count(tokens.begin(), tokens.end(), 0) == std::ssize(tokens);
    if (none && !backend.inspected) return;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      page.add(own, {"direction", to_string(static_cast<TokenDirection>(i))}, tokens[i]);
    }
  });
}

void add_cached_tokens(MetricsPage& page, const EachBackend& each_backend) {
  page.counters("evenkeel_backend_cached_prompt_tokens_total",
                "Tokens of prompts that a backend had in its cache, of responses that reported "
                "theirs: as predicted when the requests were placed, and as reported.");
  each_backend([&](const Labels& own, const BackendSnapshot& backend) {
    if (!backend.cached_tokens) return;
    page.add(own, {"source", "predicted"}, backend.cached_tokens->first);
    page.add(own, {"source", "reported"}, backend.cached_tokens->second);
  });
}

void add_ejections(MetricsPage& page, const EachBackend& each_backend) {
  page.counters("evenkeel_backend_ejections_total",
                "How often a backend was ejected because its requests failed, by reason.");
  each_backend([&](const Labels& own, const BackendSnapshot& backend) {
    for (const auto& [reason, count] : backend.ejections) page.add(own, {"reason", reason}, count);
  });
}

void add_checks(MetricsPage& page, const EachBackend& each_backend) {
  page.counters("evenkeel_backend_health_checks_total", "Health checks of a backend, by result.");
  each_backend([&](const Labels& own, const BackendSnapshot& backend) {
    for (const auto& [result, count] : backend.checks) page.add(own, {"result", result}, count);
  });
}

/// An unknown value has no series.
void add_polled(MetricsPage& page, const EachBackend& each_backend) {
  struct Family {
    std::string_view name;
    std::string_view help;
    double PolledSnapshot::* value;
  };
  static constexpr Family families[] = {
      {"evenkeel_backend_polled_age_seconds",
       "Age of the last values polled from a backend's engine and GPU.",
       &PolledSnapshot::age_seconds},
      {"evenkeel_backend_running_requests",
       "Requests that a backend's engine is processing, as polled.", &PolledSnapshot::running},
      {"evenkeel_backend_waiting_requests", "Requests that wait in a backend's engine, as polled.",
       &PolledSnapshot::waiting},
      {"evenkeel_backend_kv_cache_usage_ratio", "Used share of a backend's KV cache, as polled.",
       &PolledSnapshot::kv_cache_ratio},
      {"evenkeel_backend_gpu_utilization_ratio", "Utilization of a backend's GPUs, as polled.",
       &PolledSnapshot::gpu_utilization_ratio},
      {"evenkeel_backend_gpu_memory_used_bytes", "Used memory of a backend's GPUs, as polled.",
       &PolledSnapshot::gpu_memory_used_bytes},
      {"evenkeel_backend_gpu_memory_total_bytes", "Total memory of a backend's GPUs, as polled.",
       &PolledSnapshot::gpu_memory_total_bytes},
  };
  for (const Family& family : families) {
    page.gauges(family.name, family.help);
    each_backend([&](const Labels& own, const BackendSnapshot& backend) {
      const double value = backend.polled.*family.value;
      if (!std::isnan(value)) page.add(own, value);
    });
  }
}

/// Adds no series for what an engine does not report.
void add_engine(MetricsPage& page, const EachBackend& each_backend) {
  page.counters("evenkeel_backend_engine_restarts_total",
                "How often a backend's engine has restarted.");
  each_backend([&](const Labels& own, const BackendSnapshot& backend) {
    page.add(own, backend.engine.restarts);
  });
  page.gauges("evenkeel_backend_kv_cache_tokens", "Tokens that a backend's KV cache holds.");
  each_backend([&](const Labels& own, const BackendSnapshot& backend) {
    if (!std::isnan(backend.engine.kv_tokens)) page.add(own, backend.engine.kv_tokens);
  });
  page.counters("evenkeel_backend_prefix_cache_tokens_total",
                "Tokens of prompts that a backend's engine looked up in its prefix cache, by "
                "result.");
  each_backend([&](const Labels& own, const BackendSnapshot& backend) {
    if (!backend.engine.prefix_cache) return;
    const auto& [queried, hit] = *backend.engine.prefix_cache;
    page.add(own, {"result", "hit"}, hit);
    page.add(own, {"result", "miss"}, queried - std::min(hit, queried));
  });
  page.gauges("evenkeel_backend_lora_adapters", "LoRA adapters that a backend's engine holds.");
  each_backend([&](const Labels& own, const BackendSnapshot& backend) {
    if (backend.engine.adapters) page.add(own, std::uint64_t{*backend.engine.adapters});
  });
}

/// Adds what the schedulers of pools expect of their backends.
void add_forecasts(MetricsPage& page, const EachBackend& each_backend,
                   const std::vector<BackendSnapshot>& backends) {
  const auto has_rung = [](const BackendSnapshot& backend) { return !backend.rung.empty(); };
  if (std::none_of(backends.begin(), backends.end(), has_rung)) return;
  page.gauges("evenkeel_backend_rung",
              "1 for the rung that the pool's scheduler stands on for a backend.");
  each_backend([&](const Labels& own, const BackendSnapshot& backend) {
    if (backend.rung.empty()) return;
    for (const std::string_view rung : backend_rungs) {
      page.add(own, {"rung", rung}, std::uint64_t{backend.rung == rung});
    }
  });
  page.gauges("evenkeel_backend_predicted_wait_seconds",
              "Predicted time until a backend begins a prompt that is sent to it now.");
  each_backend([&](const Labels& own, const BackendSnapshot& backend) {
    if (!backend.rung.empty()) page.add(own, backend.predicted_wait_seconds);
  });
}

}  // namespace

void add_backend_metrics(MetricsPage& page, const std::vector<BackendSnapshot>& backends) {
  const EachBackend each_backend(backends);
  add_states(page, each_backend);
  add_traffic(page, each_backend);
  add_tokens(page, each_backend);
  add_cached_tokens(page, each_backend);
  add_ejections(page, each_backend);
  add_checks(page, each_backend);
  add_polled(page, each_backend);
  add_engine(page, each_backend);
  add_forecasts(page, each_backend, backends);
}

}  // namespace evenkeel
