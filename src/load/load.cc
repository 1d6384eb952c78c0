#include "evenkeel/load/load.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <optional>

#include "evenkeel/base/ascii.h"
#include "evenkeel/base/decimal.h"
#include "evenkeel/base/termination_signals.h"
#include "evenkeel/load/report.h"
#include "evenkeel/load/run.h"

namespace evenkeel {
namespace {

constexpr std::uint32_t max_token_count = 10'000'000;

Error unreadable(std::string_view text, const char* expected) {
  return Error{.fault = Fault::bad_request,
               .side = Side::proxy,
               .detail = "'" + std::string(text) + "': expected " + expected};
}

std::optional<std::uint32_t> token_count(std::string_view text) {
  const auto count = parse_number<std::uint32_t>(text);
  return count >= 1u && count <= max_token_count ? count : std::nullopt;
}

void print_progress(const LoadRun& run, const LoadReport& window, Duration since_last) {
  const LoadReport& total = run.report();
  const double seconds = std::max(seconds_of(since_last), 1e-3);
  std::string line =
      fmt::format("\r\x1b[K{:>4.0f} s  {} done  {} in flight  {} failed  {:.0f} req/s",
                  seconds_of(total.elapsed), total.succeeded, run.in_flight(), total.failed,
                  static_cast<double>(window.succeeded) / seconds);
  if (window.output_tokens != 0) {
    line += fmt::format("  {:.0f} tok/s", static_cast<double>(window.output_tokens) / seconds);
  }
  const bool streams = window.ttft.count() != 0;
  const HdrHistogram& shown = streams ? window.ttft : window.e2e_latency;
  if (shown.count() != 0) {
    line +=
        fmt::format("  {} p50 {} p99 {}", streams ? "TTFT" : "e2e",
                    format_duration(shown.quantile(0.5)), format_duration(shown.quantile(0.99)));
  }
  std::fputs(line.c_str(), stderr);
}

/// Waits for the end of the load or for an interrupt. True: it was an interrupt.
bool watch(LoadRun& run, const TerminationSignals& interrupts) {
  const bool terminal = isatty(STDERR_FILENO) == 1;
  const int fds[] = {interrupts.fd(), run.done_fd()};
  Instant shown = Clock::now();
  int ended = -1;
  while ((ended = wait_any_readable(
              fds, terminal ? Clock::now() + std::chrono::seconds(1) : never)) < 0) {
    const LoadReport window = run.take_window();
    const Instant now = Clock::now();
    print_progress(run, window, now - shown);
    shown = now;
  }
  if (terminal) std::fputs("\r\x1b[K", stderr);
  run.stop();
  run.take_window();
  return ended == 0;
}

}  // namespace

Result<TokenRange> parse_token_range(std::string_view text) {
  constexpr const char* expected = "a number of tokens from 1 to 10000000, or a range A..B of them";
  const std::size_t dots = text.find("..");
  const auto low = token_count(text.substr(0, dots));
  const auto high = dots == std::string_view::npos ? low : token_count(text.substr(dots + 2));
  if (!low || !high || *low > *high) return unreadable(text, expected);
  return TokenRange{*low, *high};
}

Result<std::pair<std::string, std::string>> parse_header_option(std::string_view text) {
  const std::size_t colon = text.find(':');
  if (colon == 0 || colon == std::string_view::npos) return unreadable(text, "Name: value");
  const std::string_view name = text.substr(0, colon);
  const std::string_view value = trimmed(text.substr(colon + 1));
  const auto in_value = [](char c) { return c == '\t' || (c >= ' ' || c < 0); };
  if (!std::ranges::all_of(name, is_token_char) || !std::ranges::all_of(value, in_value)) {
    return unreadable(text, "a header name and a value without control characters");
  }
  return std::pair(std::string(name), std::string(value));
}

int run_load(const LoadOptions& options) {
  auto complete = resolve_options(options);
  if (!complete) {
    fmt::print(stderr, "evenkeel load: {}\n", complete.error().detail);
    return 2;
  }
  std::ofstream log;
  if (!complete->log.empty()) {
    log.open(complete->log);
    if (!log) {
      fmt::print(stderr, "evenkeel load: --log: cannot write {}\n", complete->log);
      return 1;
    }
  }
  const TerminationSignals interrupts;
  auto run = LoadRun::start(*complete);
  if (!run) {
    fmt::print(stderr, "evenkeel load: {}\n", run.error().detail);
    return 1;
  }
  const bool interrupted = watch(**run, interrupts);

  const LoadReport& report = (*run)->report();
  log << report.log << std::flush;
  const std::string text =
      complete->json ? report_json(*complete, report) : render_report(*complete, report);
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
  const bool unanswered = report.abandoned != 0 && !interrupted;
  return report.failed == 0 && !unanswered ? 0 : 1;
}

}  // namespace evenkeel
