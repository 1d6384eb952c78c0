#include "admin/metrics.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>
#include <vector>

#include "admin/backend_families.h"
#include "admin/canaries.h"
#include "admin/documents.h"
#include "admin/limit_use.h"
#include "admin/pool_families.h"
#include "admin/scaling.h"
#include "evenkeel/admin/key_set_fetcher.h"
#include "evenkeel/admin/usage_sender.h"
#include "evenkeel/base/log.h"
#include "evenkeel/http/fields.h"
#include "evenkeel/http/preferences.h"
#include "evenkeel/stats/worker_families.h"

namespace evenkeel {
namespace {

#if defined(__clang__)
constexpr std::string_view compiler = "clang " __clang_version__;
#else
constexpr std::string_view compiler = "g++ " __VERSION__;
#endif

std::vector<std::string> tls_listeners(const Config& config) {
  std::vector<std::string> names;
  for (const ListenerConfig& listener : config.listeners) {
    if (listener.tls) names.push_back(listener.name);
  }
  return names;
}

void add_daemon(MetricsPage& page, const RuntimeView& view) {
  const RuntimeStatus& status = *view.status;
  Duration lag{};
  for (Loop* const loop : view.runtime.loops) lag = std::max(lag, loop->take_max_iteration_time());
  const AccessLog* const access_log = view.runtime.access_log;
  page.gauges("evenkeel_event_loop_lag_seconds",
              "Longest iteration of any worker's event loop since the last scrape.");
  page.add({}, seconds_of(lag));
  page.gauges("evenkeel_control_loop_lag_seconds",
              "Longest iteration of the control loop since the last scrape.");
  page.add({}, seconds_of(view.runtime.control_loop->take_max_iteration_time()));
  page.counters("evenkeel_access_log_dropped_total", "Access log lines that were lost.");
  page.add({}, access_log == nullptr ? 0 : access_log->dropped());
  if (const AccessLog* const usage_log = view.runtime.usage_log) {
    page.counters("evenkeel_usage_records_total", "Usage records that were written to the file.");
    page.add({}, usage_log->written());
    page.counters("evenkeel_usage_dropped_total", "Usage records that were lost.");
    page.add({}, usage_log->dropped());
  }
  if (const AuditLog* const audit_log = view.runtime.audit_log) {
    page.counters("evenkeel_audit_records_total", "Records that were written to the audit log.");
    page.add({}, audit_log->written());
    page.counters("evenkeel_audit_lost_total", "Records of the audit log that were lost.");
    page.add({}, audit_log->lost());
    page.gauges("evenkeel_audit_last_sequence",
                "Number of the last record of the audit log; a file that ends below it was cut.");
    page.add({}, audit_log->last_sequence());
  }
  page.counters("evenkeel_log_dropped_total", "Lines of the daemon's own log that were lost.");
  page.add({}, log::dropped_lines());
  page.gauges("evenkeel_config_last_reload_successful", "1 when the last reload was accepted.");
  page.add({}, std::uint64_t{status.reload_problems.empty()});
  page.gauges("evenkeel_last_upgrade_successful", "0 when the last upgrade (SIGUSR2) failed.");
  page.add({}, std::uint64_t{status.upgrade_problem.empty()});
  page.gauges("evenkeel_last_state_write_successful",
              "0 when the state file could not be written the last time.");
  page.add({}, std::uint64_t{status.state_file_problem.empty()});
  if (status.api_keys) {
    page.gauges("evenkeel_key_file_last_read_successful",
                "0 when the file of API keys could not be used the last time it changed.");
    page.add({}, std::uint64_t{status.key_file_problem.empty()});
    page.gauges("evenkeel_api_keys", "API keys that are known, those that have expired included.");
    page.add({}, std::uint64_t{*status.api_keys});
  }
  const auto loaded = status.loaded_at.time_since_epoch();
  if (loaded.count() != 0) {
    page.gauges("evenkeel_config_last_reload_success_timestamp_seconds",
                "When the running configuration was loaded.");
    page.add({}, std::chrono::duration<double>(loaded).count());
  }
  page.gauges("evenkeel_build_info", "1; its labels name the version and the compiler.");
  page.add({{"version", status.version}, {"compiler", compiler}}, std::uint64_t{1});
}

void add_certificates(MetricsPage& page, const RuntimeStatus& status) {
  page.gauges("evenkeel_tls_certificate_expiry_timestamp_seconds",
              "When a certificate of a listener expires.");
  for (const ListenerConfig& listener : status.config->listeners) {
    const auto tls = status.pool_set->tls_of(listener.name);
    if (tls == nullptr) continue;
    for (std::size_t i = 0; i < tls->certificates().size(); ++i) {
      const PresentedCertificate& each = tls->certificates()[i];
      const std::chrono::duration<double> expires = each.expires.time_since_epoch();
      page.add({{"listener", listener.name}, {"number", std::to_string(i)}, {"name", each.name}},
               expires.count());
    }
  }
}

void add_key_sets(MetricsPage& page, const KeySetFetcher* key_sets) {
  const auto statuses =
      key_sets == nullptr ? std::vector<KeySetFetcher::Status>() : key_sets->statuses();
  if (statuses.empty()) return;
  page.gauges("evenkeel_key_set_age_seconds",
              "Time since the keys of an issuer of tokens were last fetched.");
  for (const auto& each : statuses) {
    if (each.age) page.add({{"issuer", each.issuer}}, seconds_of(*each.age));
  }
  page.gauges("evenkeel_key_set_last_fetch_successful",
              "0 when they could not be fetched the last time.");
  for (const auto& each : statuses)
    page.add({{"issuer", each.issuer}}, std::uint64_t{each.fetched > 0 && !each.last_failed});
  page.counters("evenkeel_key_set_fetches_total", "Fetches of such keys.");
  for (const auto& each : statuses) {
    page.add({{"issuer", each.issuer}, {"result", "ok"}}, each.fetched);
    page.add({{"issuer", each.issuer}, {"result", "failed"}}, each.failed);
  }
}

void add_usage_sender(MetricsPage& page, const UsageSender* sender) {
  const auto status = sender == nullptr ? std::nullopt : sender->status();
  if (!status) return;
  page.counters("evenkeel_usage_sent_total", "Usage records that the collector has taken.");
  page.add({}, status->sent);
  page.counters("evenkeel_usage_refused_total",
                "Usage records that the collector has refused, and that were skipped.");
  page.add({}, status->refused);
  page.counters("evenkeel_usage_send_failures_total",
                "Requests to the collector of usage records that it has not taken.");
  page.add({}, status->failures);
  if (!status->unsent_age) return;
  page.gauges("evenkeel_usage_unsent_age_seconds",
              "Age of the oldest usage record that was not sent yet; 0 if all were.");
  page.add({}, seconds_of(*status->unsent_age));
}

void add_memory(MetricsPage& page, const MemoryFigures* memory) {
  const std::uint64_t limit =
      memory == nullptr ? 0 : memory->limit_bytes.load(std::memory_order_relaxed);
  if (limit == 0) return;
  page.gauges("evenkeel_memory_limit_bytes", "Memory that the process may use.");
  page.add({}, limit);
  page.gauges("evenkeel_memory_used_bytes", "Memory in use, as it counts towards the limit.");
  page.add({}, memory->used_bytes.load(std::memory_order_relaxed));
}

}  // namespace

std::string render_metrics(const RuntimeAccess& runtime, MetricsFormat format) {
  const RuntimeView view(runtime);
  const MetricsRegistry& registry = *runtime.metrics_registry;
  MetricsPage page;
  add_request_families(page, registry);
  add_panic_family(page, view);
  add_further_families(page, registry, tls_listeners(*view.status->config));
  add_pool_families(page, view);
  add_scaling_families(page, view);
  add_canary_family(page, view);
  add_limit_families(page, view);
  add_backend_families(page, view);
  add_daemon(page, view);
  add_certificates(page, *view.status);
  add_key_sets(page, runtime.key_sets);
  add_usage_sender(page, runtime.usage_sender);
  add_memory(page, runtime.memory);
  add_process_families(page);
  return page.take_text(format);
}

MetricsFormat preferred_metrics_format(std::string_view accept) {
  // Of the ranges that the text format is in, the most specific one has its weight.
  constexpr std::array<std::string_view, 3> text_ranges = {"*/*", "text/*", "text/plain"};
  std::size_t specificity = 0;
  double text = 0;
  double open_metrics = 0;
  while (const auto range = next_preference(accept)) {
    const auto version = range->parameter("version");
    if (equals_ignore_case(range->value, "application/openmetrics-text")) {
      if (!version || *version == "1.0.0") open_metrics = std::max(open_metrics, range->weight);
      continue;
    }
    for (std::size_t i = specificity; i < text_ranges.size(); ++i) {
      if (!equals_ignore_case(range->value, text_ranges[i]) || version.value_or("0.0.4") != "0.0.4")
        continue;
      text = i > specificity ? range->weight : std::max(text, range->weight);
      specificity = i;
    }
  }
  const bool prefers_open_metrics = open_metrics > 0 && open_metrics >= text;
  return prefers_open_metrics ? MetricsFormat::open_metrics : MetricsFormat::text;
}

}  // namespace evenkeel
