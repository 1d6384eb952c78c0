#include "demo/blast.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "demo/backend_table.h"
#include "demo/balancer_process.h"
#include "evenkeel/base/termination_signals.h"
#include "evenkeel/load/run.h"
#include "evenkeel/sim/presets.h"
#include "evenkeel/sim/simulators.h"

namespace evenkeel {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::size_t active_count = 6;
constexpr std::size_t standby_count = 2;
constexpr const char* preset = "llama-3-8b-a100";
constexpr double speed = 0.4;  // slow GPUs take less of this machine's CPU
constexpr double baseline_rate =
    7.5;  // requests per second; six servers cannot serve eight times it
constexpr double burst_factor = 8;
constexpr Duration ttft_objective = seconds(3);  // p99 of the time to first token, in any second
constexpr std::uint64_t min_ttft_samples = 10;   // a second with fewer is not judged

constexpr Duration baseline_duration = seconds(4);
constexpr Duration burst_duration = seconds(12);
constexpr Duration max_recovery_duration =
    seconds(25);  // ends when no standby server is in service
constexpr Duration standby_dwell = seconds(3);
constexpr Duration poll_interval = milliseconds(100);
constexpr Duration print_interval = seconds(1);

std::vector<SimulatorOptions> simulator_options(std::uint64_t seed) {
  std::vector<SimulatorOptions> servers;
  for (std::size_t i = 0; i < active_count + standby_count; ++i) {
    servers.push_back(
        {.name = "sim-" + std::to_string(i), .preset = preset, .speed = speed, .seed = seed + i});
  }
  return servers;
}

std::string balancer_config(const DemoOptions& options, const std::vector<Endpoint>& servers) {
  PoolConfig pool{.name = "blast",
                  .picker = {{.name = options.picker}},
                  .standby = {.dwell = std::chrono::duration_cast<milliseconds>(standby_dwell)}};
  for (std::size_t i = 0; i < servers.size(); ++i) {
    pool.backends.push_back(
        {.address = {servers[i].host(), servers[i].port()}, .standby = i >= active_count});
  }
  return config_of(std::move(pool));
}

/// One phase of the scenario and the requests that started in it.
struct Phase {
  const char* name;
  double rate;
  Duration length;
  std::unique_ptr<LoadRun> run;
};

LoadOptions load_options(const Phase& phase, const BalancerProcess& balancer, std::uint64_t seed) {
  LoadOptions load = streams_to(balancer, find_preset(preset)->model);
  load.rate = phase.rate;
  load.duration = phase.length;
  load.seed = seed;
  return load;
}

/// Follows the standby servers into service and back.
class StandbyWatcher {
 public:
  StandbyWatcher(const BalancerProcess& balancer, const std::vector<Endpoint>& servers)
      : admin_address_(balancer.admin_address()) {
    for (const Endpoint& server : servers) rows_.push_back({.id = server.text()});
  }

  /// Reads the state of the backends and prints changes.
  void poll(Duration since_burst) {
    const std::size_t before = in_service();
    fetch_rows(rows_, admin_address_);
    const std::size_t now = in_service();
    if (now > before) {
      joined_ += now - before;
      fmt::print("        +{} standby server{} in service, {:.1f} s after the jump\n", now - before,
                 now - before == 1 ? "" : "s", seconds_of(since_burst));
    } else if (now < before) {
      left_service_ += before - now;
      fmt::print("        -{} server{} back on standby\n", before - now,
                 before - now == 1 ? "" : "s");
    }
  }

  std::size_t in_service() const {
    return static_cast<std::size_t>(
        std::count_if(rows_.begin() + active_count, rows_.end(),
                      [](const BackendRow& row) { return row.state == "up"; }));
  }
  std::size_t joined() const { return joined_; }
  std::size_t left_service() const { return left_service_; }
  std::uint64_t in_flight() const {
    std::uint64_t sum = 0;
    for (const BackendRow& row : rows_) sum += row.in_flight;
    return sum;
  }

 private:
  std::vector<BackendRow> rows_;
  std::string admin_address_;
  std::size_t joined_ = 0;
  std::size_t left_service_ = 0;
};

/// Results of the last second, over all phases.
LoadReport take_second(std::vector<Phase>& phases) {
  LoadReport all;
  for (Phase& phase : phases) {
    if (phase.run != nullptr) all.merge(phase.run->take_window());
  }
  return all;
}

void print_second(Duration since_start, const LoadReport& second,
                  const StandbyWatcher& standby_watcher) {
  fmt::print(
      "{:>4.0f} s  {:>5} started  {:>5} tok/s  {:>4} in flight  first token p50 {:>8} p99 {:>8}  "
      "{} + {} servers\n",
      seconds_of(since_start), second.started, second.output_tokens, standby_watcher.in_flight(),
      second.ttft.count() == 0 ? "-" : format_duration(second.ttft.quantile(0.5)),
      second.ttft.count() == 0 ? "-" : format_duration(second.ttft.quantile(0.99)), active_count,
      standby_watcher.in_service());
  std::fflush(stdout);
}

enum class End { done, interrupted, balancer_ended, could_not_start };

/// Runs the three phases one after the other.
class Blast {
 public:
  Blast(BalancerProcess& balancer, const TerminationSignals& interrupts,
        StandbyWatcher& standby_watcher, std::uint64_t seed)
      : balancer_(balancer),
        interrupts_(interrupts),
        standby_watcher_(standby_watcher),
        seed_(seed) {
    phases_.push_back({"before", baseline_rate, baseline_duration, nullptr});
    phases_.push_back({"the blast", baseline_rate * burst_factor, burst_duration, nullptr});
    phases_.push_back({"after", baseline_rate, max_recovery_duration, nullptr});
  }

  End run() {
    start_ = Clock::now();
    next_print_ = start_ + print_interval;
    Instant end = start_;
    for (Phase& phase : phases_) {
      end += phase.length;
      if (const auto ended = run_phase(phase, end)) return *ended;
    }
    for (Phase& phase : phases_) {
      phase.run->stop();
      phase.run->take_window();
    }
    return End::done;
  }

  /// Prints the results of each phase. True: every objective was met.
  bool evaluate() const {
    bool met = true;
    fmt::print("\n{:<12}{:>10}{:>10}{:>10}{:>14}{:>14}\n", "", "req/s", "answered", "failed",
               "TTFT p50", "TTFT p99");
    for (const Phase& phase : phases_) {
      const LoadReport& report = phase.run->report();
      fmt::print("{:<12}{:>10.1f}{:>10}{:>10}{:>14}{:>14}\n", phase.name, phase.rate,
                 report.succeeded, report.failed, format_duration(report.ttft.quantile(0.5)),
                 format_duration(report.ttft.quantile(0.99)));
      met = met && report.failed == 0 && report.ttft.count() > 0 &&
            report.ttft.quantile(0.99) < ttft_objective;
    }
    met = met && worst_ttft_p99_ < ttft_objective;
    fmt::print(
        "\n{} of {} standby servers entered service, {} returned to standby; p99 TTFT under {} "
        "without a "
        "failed request: {}\n",
        std::min(standby_watcher_.joined(), standby_count), standby_count,
        std::min(standby_watcher_.left_service(), standby_count), format_duration(ttft_objective),
        met ? "met" : "NOT met");
    return met && standby_watcher_.joined() >= standby_count &&
           standby_watcher_.left_service() >= standby_count;
  }

  const std::string& start_error() const { return start_error_; }

 private:
  /// Nothing, to go on with the next phase.
  std::optional<End> run_phase(Phase& phase, Instant end) {
    const auto index = static_cast<std::uint64_t>(&phase - phases_.data());
    auto run = LoadRun::start(load_options(phase, balancer_, seed_ + index));
    if (!run) {
      start_error_ = run.error().detail;
      return End::could_not_start;
    }
    phase.run = std::move(*run);
    const bool last = &phase == &phases_.back();
    while (Clock::now() < end && !(last && standby_is_back())) {
      if (const auto ended = wait_until(Clock::now() + poll_interval)) return ended;
      standby_watcher_.poll(Clock::now() - (start_ + baseline_duration));
      if (Clock::now() >= next_print_) report_second();
    }
    return std::nullopt;
  }

  bool standby_is_back() const {
    return standby_watcher_.left_service() >= standby_count && standby_watcher_.in_service() == 0;
  }

  void report_second() {
    const LoadReport second = take_second(phases_);
    if (second.ttft.count() >= min_ttft_samples) {
      worst_ttft_p99_ = std::max(worst_ttft_p99_, second.ttft.quantile(0.99));
    }
    print_second(next_print_ - start_, second, standby_watcher_);
    next_print_ += print_interval;
  }

  std::optional<End> wait_until(Instant moment) {
    const int fds[] = {interrupts_.fd(), balancer_.output_fd()};
    for (;;) {
      const int woken = wait_any_readable(fds, moment);
      if (woken == 0) return End::interrupted;
      if (woken == 1 && !balancer_.take_output()) return End::balancer_ended;
      if (woken < 0 || Clock::now() >= moment) return std::nullopt;
    }
  }

  BalancerProcess& balancer_;
  const TerminationSignals& interrupts_;
  StandbyWatcher& standby_watcher_;
  std::uint64_t seed_;
  std::vector<Phase> phases_;
  Instant start_{};
  Instant next_print_{};
  Duration worst_ttft_p99_{};  // of any second
  std::string start_error_;
};

void print_banner(const DemoOptions& options, const BalancerProcess& balancer) {
  const std::string& admin = balancer.admin_address();
  fmt::print(
      "evenkeel demo: {} servers and {} standby servers behind one balancer ({}); {:.1f} "
      "requests/s, "
      "then {:.0f} for {:.0f} s\n\n  live page   http://{}/ui/\n  metrics     "
      "http://{}/metrics\n  admin       http://{}/api/v1/backends\n\n",
      active_count, standby_count, options.picker, baseline_rate, baseline_rate * burst_factor,
      seconds_of(burst_duration), admin, admin, admin);
  std::fflush(stdout);
}

}  // namespace

Result<int> run_blast(const DemoOptions& options) {
  const TerminationSignals interrupts;
  auto simulators = Simulators::start(simulator_options(options.seed));
  if (!simulators) return std::move(simulators.error());
  const auto& servers = (*simulators)->endpoints();
  auto balancer = BalancerProcess::start(executable_path(), balancer_config(options, servers),
                                         interrupts, BalancerProcess::start_timeout);
  if (!balancer) return std::move(balancer.error());

  print_banner(options, **balancer);
  StandbyWatcher standby_watcher(**balancer, servers);
  Blast scenario(**balancer, interrupts, standby_watcher, options.seed);
  const End end = scenario.run();
  if (end == End::interrupted) return Error{.detail = "interrupted"};
  if (end == End::could_not_start) return Error{.detail = scenario.start_error()};
  const int code = (*balancer)->stop(BalancerProcess::drain_timeout);
  if (end == End::balancer_ended || code != 0) {
    return Error{
        .detail = fmt::format("the balancer ended with {}:\n{}", code, (*balancer)->last_output())};
  }
  return scenario.evaluate() ? 0 : 1;
}

}  // namespace evenkeel
