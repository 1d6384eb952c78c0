#include "load_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "load_request.h"

namespace evenkeel {
namespace {

constexpr std::size_t longest_example = 160;

double per_second(std::uint64_t count, Duration elapsed) {
  return elapsed > Duration::zero() ? static_cast<double>(count) / seconds_of(elapsed) : 0;
}

void append_row(std::string& out, std::string_view name, const Percentiles& durations) {
  if (durations.count() == 0) return;
  fmt::format_to(std::back_inserter(out), "{:<22}{:>10}{:>10}{:>10}{:>10}{:>10}\n", name,
                 duration_text(durations.mean()), duration_text(durations.at(0.5)),
                 duration_text(durations.at(0.9)), duration_text(durations.at(0.99)),
                 duration_text(durations.longest()));
}

std::string json_of(const Percentiles& durations) {
  if (durations.count() == 0) return "null";
  return fmt::format(
      R"({{"count":{},"mean":{:.9f},"p50":{:.9f},"p90":{:.9f},"p99":{:.9f},"max":{:.9f}}})",
      durations.count(), seconds_of(durations.mean()), seconds_of(durations.at(0.5)),
      seconds_of(durations.at(0.9)), seconds_of(durations.at(0.99)),
      seconds_of(durations.longest()));
}

/// A JSON object out of a map; `value` turns what is mapped to into JSON.
template <class Map, class Value>
std::string json_object(const Map& map, Value value) {
  std::string out = "{";
  for (const auto& [name, what] : map) {
    if (out.size() > 1) out += ',';
    out += json_quoted(name) + ":" + value(what);
  }
  return out += '}';
}

const char* loop_of(const LoadOptions& options) {
  if (!options.trace.empty()) return "trace";
  if (options.rate > 0) return options.poisson ? "poisson" : "rate";
  return "closed";
}

}  // namespace

void LoadReport::add_failure(std::string_view kind, std::string_view example) {
  auto found = failures.find(kind);
  if (found == failures.end()) found = failures.emplace(kind, LoadFailures()).first;
  if (found->second.count++ != 0) return;
  // Whatever a server said, it must not break a terminal or a JSON file.
  auto& kept = found->second.example;
  kept = example.substr(0, longest_example);
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
  late_starts += other.late_starts;
  connections += other.connections;
  reused += other.reused;
  first_token.merge(other.first_token);
  per_token.merge(other.per_token);
  gap.merge(other.gap);
  whole.merge(other.whole);
  lateness.merge(other.lateness);
  for (const auto& [kind, failure] : other.failures) {
    auto& mine = failures[kind];
    if (mine.count == 0) mine.example = failure.example;
    mine.count += failure.count;
  }
  for (const auto& [reason, count] : other.reasons) reasons[reason] += count;
  for (const auto& [name, share] : other.backends) {
    backends[name].answered += share.answered;
    backends[name].first_token.merge(share.first_token);
  }
}

std::string duration_text(Duration duration) {
  const double seconds = seconds_of(duration);
  const auto three_digits = [](double value, const char* unit) {
    const int decimals = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
    return fmt::format("{:.{}f} {}", value, decimals, unit);
  };
  if (seconds < 999.5e-6) return three_digits(seconds * 1e6, "us");
  if (seconds < 999.5e-3) return three_digits(seconds * 1e3, "ms");
  return three_digits(seconds, "s");
}

std::string render_report(const LoadReport& report) {
  std::string out;
  const auto line = [&out]<class... Values>(fmt::format_string<Values...> format,
                                            Values&&... values) {
    fmt::format_to(std::back_inserter(out), format, std::forward<Values>(values)...);
    out += '\n';
  };
  line("requests   {} started, {} succeeded, {} failed, {} abandoned in {:.1f} s ({:.1f}/s)",
       report.started, report.succeeded, report.failed, report.abandoned,
       seconds_of(report.elapsed), per_second(report.succeeded, report.elapsed));
  line("tokens     {} prompt{}, {} output ({:.0f}/s)", report.prompt_tokens,
       report.cached_tokens == 0
           ? std::string()
           : fmt::format(" ({:.1f} % cached)", 100 * static_cast<double>(report.cached_tokens) /
                                                   static_cast<double>(report.prompt_tokens)),
       report.output_tokens, per_second(report.output_tokens, report.elapsed));
  line("links      {} connections opened, {} requests on one that had served before",
       report.connections, report.reused);
  if (report.lateness.count() != 0) {
    line("late       {} of {} started more than {} after they were due", report.late_starts,
         report.lateness.count(), duration_text(late_start));
  }

  line("\n{:<22}{:>10}{:>10}{:>10}{:>10}{:>10}", "", "mean", "p50", "p90", "p99", "max");
  append_row(out, "first token (TTFT)", report.first_token);
  append_row(out, "per token (TPOT)", report.per_token);
  append_row(out, "gap between tokens", report.gap);
  append_row(out, "whole answer (e2e)", report.whole);
  append_row(out, "late start", report.lateness);

  if (!report.backends.empty()) {
    std::uint64_t all = 0;
    for (const auto& [name, share] : report.backends) all += share.answered;
    line("\n{:<28}{:>10}{:>8}{:>12}{:>12}", "backend", "answered", "share", "TTFT p50", "TTFT p99");
    for (const auto& [name, share] : report.backends) {
      const bool streamed = share.first_token.count() != 0;
      line("{:<28}{:>10}{:>7.1f}%{:>12}{:>12}", name, share.answered,
           100 * static_cast<double>(share.answered) / static_cast<double>(all),
           streamed ? duration_text(share.first_token.at(0.5)) : "-",
           streamed ? duration_text(share.first_token.at(0.99)) : "-");
    }
  }

  if (!report.failures.empty()) {
    line("\n{:<22}{:>10}  for example", "failed", "count");
    for (const auto& [kind, failure] : report.failures) {
      line("{:<22}{:>10}  {}", kind, failure.count, failure.example);
    }
    for (const auto& [reason, count] : report.reasons) {
      line("  {:<20}{:>10}  x-evenkeel-reason", reason, count);
    }
  }
  return out;
}

std::string report_json(const LoadOptions& options, const LoadReport& report) {
  const auto count = [](std::uint64_t value) { return std::to_string(value); };
  const bool open = report.lateness.count() != 0;
  std::string out =
      fmt::format(R"({{"url":{},"loop":"{}","stream":{},"seed":{})", json_quoted(options.url),
                  loop_of(options), options.stream, options.seed);
  const auto add = [&out](std::string_view key, const std::string& json) {
    fmt::format_to(std::back_inserter(out), ",\"{}\":{}", key, json);
  };
  add("elapsed_seconds", fmt::format("{:.6f}", seconds_of(report.elapsed)));
  add("requests", fmt::format(R"({{"started":{},"succeeded":{},"failed":{},"abandoned":{}}})",
                              report.started, report.succeeded, report.failed, report.abandoned));
  add("requests_per_second", fmt::format("{:.3f}", per_second(report.succeeded, report.elapsed)));
  add("tokens", fmt::format(R"({{"prompt":{},"cached":{},"output":{}}})", report.prompt_tokens,
                            report.cached_tokens, report.output_tokens));
  add("output_tokens_per_second",
      fmt::format("{:.3f}", per_second(report.output_tokens, report.elapsed)));
  add("connections",
      fmt::format(R"({{"opened":{},"reused":{}}})", report.connections, report.reused));
  add("late_starts", open ? count(report.late_starts) : "null");
  add("late_seconds", json_of(report.lateness));
  add("ttft_seconds", json_of(report.first_token));
  add("tpot_seconds", json_of(report.per_token));
  add("gap_seconds", json_of(report.gap));
  add("e2e_seconds", json_of(report.whole));
  add("errors", json_object(report.failures, [](const LoadFailures& failure) {
        return fmt::format(R"({{"count":{},"example":{}}})", failure.count,
                           json_quoted(failure.example));
      }));
  add("reasons", json_object(report.reasons, count));
  add("backends", json_object(report.backends, [](const BackendShare& share) {
        return fmt::format(R"({{"answered":{},"ttft_seconds":{}}})", share.answered,
                           json_of(share.first_token));
      }));
  return out += "}\n";
}

}  // namespace evenkeel
