#include "evenkeel/load/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>

#include "evenkeel/json/value.h"

namespace evenkeel {
namespace {

constexpr std::size_t max_example_bytes = 160;

double per_second(std::uint64_t count, Duration elapsed) {
  return elapsed > Duration::zero() ? static_cast<double>(count) / seconds_of(elapsed) : 0;
}

void append_row(std::string& out, std::string_view name, const HdrHistogram& durations) {
  if (durations.count() == 0) return;
  fmt::format_to(std::back_inserter(out), "{:<22}{:>10}{:>10}{:>10}{:>10}{:>10}\n", name,
                 format_duration(durations.mean()), format_duration(durations.quantile(0.5)),
                 format_duration(durations.quantile(0.9)),
                 format_duration(durations.quantile(0.99)), format_duration(durations.max()));
}

/// Null without any durations.
JsonValue summary(const HdrHistogram& durations) {
  if (durations.count() == 0) return {};
  return JsonValue::Object{{"count", durations.count()},
                           {"mean", seconds_of(durations.mean())},
                           {"p50", seconds_of(durations.quantile(0.5))},
                           {"p90", seconds_of(durations.quantile(0.9))},
                           {"p99", seconds_of(durations.quantile(0.99))},
                           {"max", seconds_of(durations.max())}};
}

template <class... Values>
void append_line(std::string& out, fmt::format_string<Values...> format, Values&&... values) {
  fmt::format_to(std::back_inserter(out), format, std::forward<Values>(values)...);
  out += '\n';
}

void append_totals(std::string& out, const LoadReport& report) {
  append_line(
      out, "requests     {} started, {} succeeded, {} failed, {} abandoned in {:.1f} s ({:.1f}/s)",
      report.started, report.succeeded, report.failed, report.abandoned, seconds_of(report.elapsed),
      per_second(report.succeeded, report.elapsed));
  const std::string cached =
      report.cached_tokens == 0
          ? std::string()
          : fmt::format(" ({:.1f} % cached)", 100 * static_cast<double>(report.cached_tokens) /
                                                  static_cast<double>(report.prompt_tokens));
  append_line(out, "tokens       {} prompt{}, {} output ({:.0f}/s)", report.prompt_tokens, cached,
              report.output_tokens, per_second(report.output_tokens, report.elapsed));
  append_line(out, "connections  {} opened, {} requests on a reused one", report.connections,
              report.reused);
  if (report.lateness.count() != 0) {
    append_line(out, "late starts  {} of {} requests started more than {} after they were due",
                report.late_starts, report.lateness.count(), format_duration(late_start_threshold));
  }
}

void append_latencies(std::string& out, const LoadReport& report) {
  append_line(out, "\n{:<22}{:>10}{:>10}{:>10}{:>10}{:>10}", "", "mean", "p50", "p90", "p99",
              "max");
  append_row(out, "first token (TTFT)", report.ttft);
  append_row(out, "per token (TPOT)", report.tpot);
  append_row(out, "between tokens", report.inter_token_latency);
  append_row(out, "whole response (e2e)", report.e2e_latency);
  append_row(out, "late start", report.lateness);
}

void append_backends(std::string& out, const LoadReport& report) {
  if (report.backends.empty()) return;
  std::uint64_t all = 0;
  for (const auto& [name, share] : report.backends) all += share.answered;
  append_line(out, "\n{:<28}{:>10}{:>8}{:>12}{:>12}", "backend", "answered", "share", "TTFT p50",
              "TTFT p99");
  for (const auto& [name, share] : report.backends) {
    const bool streamed = share.ttft.count() != 0;
    append_line(out, "{:<28}{:>10}{:>7.1f}%{:>12}{:>12}", name, share.answered,
                100 * static_cast<double>(share.answered) / static_cast<double>(all),
                streamed ? format_duration(share.ttft.quantile(0.5)) : "-",
                streamed ? format_duration(share.ttft.quantile(0.99)) : "-");
  }
}

void append_failures(std::string& out, const LoadReport& report) {
  if (report.failures.empty()) return;
  append_line(out, "\n{:<22}{:>10}  for example", "failed", "count");
  for (const auto& [kind, failure] : report.failures) {
    append_line(out, "{:<22}{:>10}  {}", kind, failure.count, failure.example);
  }
  for (const auto& [reason, count] : report.reasons) {
    append_line(out, "  {:<20}{:>10}  x-evenkeel-reason", reason, count);
  }
}

/// Nothing without targets. What is refused, fails or never ends is not good.
std::optional<double> goodput_ratio(const LoadOptions& options, const LoadReport& report) {
  if (!options.has_targets() || report.started == 0) return std::nullopt;
  return static_cast<double>(report.good) / static_cast<double>(report.started);
}

const char* loop_name(const LoadOptions& options) {
  if (!options.trace.empty()) return "trace";
  if (options.rate > 0) return options.poisson ? "poisson" : "rate";
  return "closed";
}

}  // namespace

void LoadReport::add_failure(std::string_view kind, std::string_view example) {
  auto found = failures.find(kind);
  if (found == failures.end()) found = failures.emplace(kind, LoadFailures()).first;
  if (found->second.count++ != 0) return;
  // The server's text must not break a terminal or a JSON file.
  auto& kept = found->second.example;
  kept = example.substr(0, max_example_bytes);
  std::replace_if(kept.begin(), kept.end(), [](char c) { return c < ' ' || c > '~'; }, ' ');
}

void LoadReport::merge(const LoadReport& other) {
  elapsed = std::max(elapsed, other.elapsed);
  started += other.started;
  succeeded += other.succeeded;
  failed += other.failed;
  abandoned += other.abandoned;
  prompt_tokens += other.prompt_tokens;
  cached_tokens += other.cached_tokens;
  output_tokens += other.output_tokens;
  good += other.good;
  late_starts += other.late_starts;
  connections += other.connections;
  reused += other.reused;
  ttft.merge(other.ttft);
  tpot.merge(other.tpot);
  inter_token_latency.merge(other.inter_token_latency);
  e2e_latency.merge(other.e2e_latency);
  lateness.merge(other.lateness);
  for (const auto& [kind, failure] : other.failures) {
    auto& mine = failures[kind];
    if (mine.count == 0) mine.example = failure.example;
    mine.count += failure.count;
  }
  for (const auto& [reason, count] : other.reasons) reasons[reason] += count;
  for (const auto& [name, share] : other.backends) {
    backends[name].answered += share.answered;
    backends[name].ttft.merge(share.ttft);
  }
  log += other.log;
}

std::string format_duration(Duration duration) {
  const double seconds = seconds_of(duration);
  const auto three_digits = [](double value, const char* unit) {
    const int decimals = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
    return fmt::format("{:.{}f} {}", value, decimals, unit);
  };
  if (seconds < 999.5e-6) return three_digits(seconds * 1e6, "us");
  if (seconds < 999.5e-3) return three_digits(seconds * 1e3, "ms");
  return three_digits(seconds, "s");
}

std::string render_report(const LoadOptions& options, const LoadReport& report) {
  std::string out;
  append_totals(out, report);
  if (const auto goodput = goodput_ratio(options, report)) {
    append_line(out, "goodput      {:.1f} % of the requests met their targets", 100 * *goodput);
  }
  append_latencies(out, report);
  append_backends(out, report);
  append_failures(out, report);
  return out;
}

std::string report_json(const LoadOptions& options, const LoadReport& report) {
  JsonValue::Object errors, reasons, backends;
  for (const auto& [kind, failure] : report.failures) {
    errors.emplace_back(kind,
                        JsonValue::Object{{"count", failure.count}, {"example", failure.example}});
  }
  for (const auto& [reason, count] : report.reasons) reasons.emplace_back(reason, count);
  for (const auto& [name, share] : report.backends) {
    backends.emplace_back(name, JsonValue::Object{{"answered", share.answered},
                                                  {"ttft_seconds", summary(share.ttft)}});
  }
  const bool open = report.lateness.count() != 0;
  return json_text(JsonValue::Object{
             {"url", options.url},
             {"loop", loop_name(options)},
             {"stream", options.stream},
             {"seed", options.seed},
             {"elapsed_seconds", seconds_of(report.elapsed)},
             {"requests", JsonValue::Object{{"started", report.started},
                                            {"succeeded", report.succeeded},
                                            {"failed", report.failed},
                                            {"abandoned", report.abandoned}}},
             {"requests_per_second", per_second(report.succeeded, report.elapsed)},
             {"tokens", JsonValue::Object{{"prompt", report.prompt_tokens},
                                          {"cached", report.cached_tokens},
                                          {"output", report.output_tokens}}},
             {"output_tokens_per_second", per_second(report.output_tokens, report.elapsed)},
             {"connections",
              JsonValue::Object{{"opened", report.connections}, {"reused", report.reused}}},
             {"goodput_ratio", goodput_ratio(options, report)},
             {"late_starts", open ? std::optional(report.late_starts) : std::nullopt},
             {"late_seconds", summary(report.lateness)},
             {"ttft_seconds", summary(report.ttft)},
             {"tpot_seconds", summary(report.tpot)},
             {"gap_seconds", summary(report.inter_token_latency)},
             {"e2e_seconds", summary(report.e2e_latency)},
             {"errors", std::move(errors)},
             {"reasons", std::move(reasons)},
             {"backends", std::move(backends)}}) +
         "\n";
}

}  // namespace evenkeel
