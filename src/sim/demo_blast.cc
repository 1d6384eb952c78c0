#include "sim/demo_blast.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "evenkeel/config/load.h"
#include "evenkeel/fleet/fetch.h"
#include "evenkeel/sim/presets.h"
#include "evenkeel/sim/simulators.h"
#include "sim/demo_balancer.h"
#include "sim/demo_table.h"
#include "sim/interrupts.h"
#include "sim/load_run.h"

namespace evenkeel {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::size_t actives = 6;
constexpr std::size_t spares = 2;
constexpr const char* preset = "llama-3-8b-a100";
constexpr double speed = 0.4;      // few tokens for many GPUs: it is to run beside other things
constexpr double calm_rate = 7.5;  // requests per second; eight times it is more than six can do
constexpr double jump = 8;
constexpr Duration promise = seconds(3);  // p99 of the time to the first token, in any second
constexpr std::uint64_t few = 10;         // first tokens that say nothing of a second

constexpr Duration before_it = seconds(4);
constexpr Duration blast = seconds(12);
constexpr Duration after_it = seconds(25);  // at most: it ends when the spares have left
constexpr Duration dwell = seconds(3);
constexpr Duration look_interval = milliseconds(100);
constexpr Duration line_interval = seconds(1);
constexpr Duration start_patience = seconds(15);
constexpr Duration drain_patience = seconds(20);
constexpr Duration ask_patience = milliseconds(500);

std::string model_name() { return find_preset(preset)->model; }

std::vector<SimulatorOptions> simulator_options(std::uint64_t seed) {
  std::vector<SimulatorOptions> servers;
  for (std::size_t i = 0; i < actives + spares; ++i) {
    servers.push_back(
        {.name = "sim-" + std::to_string(i), .preset = preset, .speed = speed, .seed = seed + i});
  }
  return servers;
}

std::string balancer_config(const DemoOptions& options, const std::vector<Endpoint>& servers) {
  PoolConfig pool{.name = "blast",
                  .engine = "vllm",
                  .picker = options.picker,
                  .spares = {.dwell = std::chrono::duration_cast<milliseconds>(dwell)},
                  .debug_headers = true};
  for (std::size_t i = 0; i < servers.size(); ++i) {
    pool.backends.push_back(
        {.address = {servers[i].host(), servers[i].port()}, .standby = i >= actives});
  }
  Config config;
  config.listeners.front().address = {"127.0.0.1", 0};
  config.admin.address = {"127.0.0.1", 0};
  config.pools.push_back(std::move(pool));
  config.routes.push_back({.name = "all", .targets = {{.pool = "blast"}}});
  config.access_log.path = "off";
  config.shutdown.drain = seconds(5);
  return print_config(config, false);
}

/// One stretch of it, and what became of its requests, whenever they end.
struct Stretch {
  const char* name;
  double rate;
  Duration length;
  std::unique_ptr<LoadRun> run;
};

LoadOptions load_options(const Stretch& stretch, const Balancer& balancer, std::uint64_t seed) {
  return {.url = "http://" + balancer.public_address(),
          .rate = stretch.rate,
          .poisson = true,
          .duration = stretch.length,
          .prompt_tokens = {64, 1024},
          .output_tokens = {16, 96},
          .stream = true,
          .model = model_name(),
          .timeout = seconds(30),
          .drain = drain_patience,
          .seed = seed};
}

/// When the spares came and went.
class Spares {
 public:
  Spares(const Balancer& balancer, const std::vector<Endpoint>& servers)
      : admin_address_(balancer.admin_address()) {
    for (const Endpoint& server : servers) rows_.push_back({.id = server.text()});
    auto target = find_target("http://" + admin_address_);
    if (target) admin_ = target->endpoints.front();
  }

  /// Looks, and says what has changed.
  void look(Duration since_jump) {
    const auto backends =
        fetch_now({.addresses = {admin_}, .authority = admin_address_, .path = "/api/v1/backends"},
                  ask_patience);
    if (!backends || backends->status != 200 || !backends->whole) return;
    const std::size_t before = in_service();
    update_rows(rows_, backends->body);
    const std::size_t now = in_service();
    if (now > before) {
      came_ += now - before;
      fmt::print("        +{} spare{} in service, {:.1f} s after the jump\n", now - before,
                 now - before == 1 ? "" : "s", seconds_of(since_jump));
    } else if (now < before) {
      went_ += before - now;
      fmt::print("        -{} spare{} back on standby\n", before - now,
                 before - now == 1 ? "" : "s");
    }
  }

  std::size_t in_service() const {
    return static_cast<std::size_t>(
        std::count_if(rows_.begin() + actives, rows_.end(),
                      [](const DemoRow& row) { return row.state == "up"; }));
  }
  std::size_t came() const { return came_; }
  std::size_t went() const { return went_; }
  std::uint64_t in_flight() const {
    std::uint64_t sum = 0;
    for (const DemoRow& row : rows_) sum += row.in_flight;
    return sum;
  }

 private:
  std::vector<DemoRow> rows_;
  std::string admin_address_;
  Endpoint admin_;
  std::size_t came_ = 0;
  std::size_t went_ = 0;
};

/// What the last second brought, over all stretches.
LoadReport take_second(std::vector<Stretch>& stretches) {
  LoadReport all;
  for (Stretch& stretch : stretches) {
    if (stretch.run != nullptr) all.merge(stretch.run->take_window());
  }
  return all;
}

void print_second(Duration since_start, const LoadReport& second, const Spares& spares_seen) {
  fmt::print(
      "{:>4.0f} s  {:>5} started  {:>5} tok/s  {:>4} in flight  first token p50 {:>8} p99 {:>8}  "
      "{} + {} servers\n",
      seconds_of(since_start), second.started, second.output_tokens, spares_seen.in_flight(),
      second.first_token.count() == 0 ? "-" : duration_text(second.first_token.at(0.5)),
      second.first_token.count() == 0 ? "-" : duration_text(second.first_token.at(0.99)), actives,
      spares_seen.in_service());
  std::fflush(stdout);
}

enum class End { done, interrupted, balancer_ended, could_not_start };

/// The three stretches, one after the other.
class Blast {
 public:
  Blast(Balancer& balancer, const Interrupts& interrupts, Spares& spares_seen, std::uint64_t seed)
      : balancer_(balancer), interrupts_(interrupts), spares_(spares_seen), seed_(seed) {
    stretches_.push_back({"before", calm_rate, before_it, nullptr});
    stretches_.push_back({"the blast", calm_rate * jump, blast, nullptr});
    stretches_.push_back({"after", calm_rate, after_it, nullptr});
  }

  End run() {
    const Instant start = Clock::now();
    const Instant jumps = start + before_it;
    Instant begins = start;
    Instant next_line = start + line_interval;
    for (std::size_t at = 0; at < stretches_.size(); ++at) {
      Stretch& stretch = stretches_[at];
      auto run = LoadRun::begin(load_options(stretch, balancer_, seed_ + at));
      if (!run) {
        why_ = run.error().detail;
        return End::could_not_start;
      }
      stretch.run = std::move(*run);
      const bool last = at + 1 == stretches_.size();
      for (const Instant ends = begins + stretch.length; Clock::now() < ends;) {
        if (const auto ended = wait_until(Clock::now() + look_interval)) return *ended;
        spares_.look(Clock::now() - jumps);
        if (Clock::now() >= next_line) {
          const LoadReport second = take_second(stretches_);
          if (second.first_token.count() >= few)
            worst_ = std::max(worst_, second.first_token.at(0.99));
          print_second(next_line - start, second, spares_);
          next_line += line_interval;
        }
        if (last && spares_.went() >= spares && spares_.in_service() == 0) break;
      }
      begins += stretch.length;
    }
    for (Stretch& stretch : stretches_) {
      stretch.run->stop();
      stretch.run->take_window();
    }
    return End::done;
  }

  /// What each stretch brought, and whether all went as promised.
  bool judge() const {
    bool good = true;
    fmt::print("\n{:<12}{:>10}{:>10}{:>10}{:>14}{:>14}\n", "", "req/s", "answered", "failed",
               "TTFT p50", "TTFT p99");
    for (const Stretch& stretch : stretches_) {
      const LoadReport& report = stretch.run->report();
      fmt::print("{:<12}{:>10.1f}{:>10}{:>10}{:>14}{:>14}\n", stretch.name, stretch.rate,
                 report.succeeded, report.failed, duration_text(report.first_token.at(0.5)),
                 duration_text(report.first_token.at(0.99)));
      good = good && report.failed == 0 && report.first_token.count() > 0 &&
             report.first_token.at(0.99) < promise;
    }
    good = good && worst_ < promise;
    fmt::print(
        "\n{} of {} spares came by themselves, {} went again; p99 to the first token was to stay "
        "under {}: {}\n",
        std::min(spares_.came(), spares), spares, std::min(spares_.went(), spares),
        duration_text(promise), good ? "it did" : "it did NOT, or requests failed");
    return good && spares_.came() >= spares && spares_.went() >= spares;
  }

  const std::string& why() const { return why_; }

 private:
  std::optional<End> wait_until(Instant moment) {
    const int fds[] = {interrupts_.fd(), balancer_.output_fd()};
    for (;;) {
      const auto left = std::chrono::ceil<milliseconds>(moment - Clock::now());
      const int woken =
          wait_for_any(fds, 2, static_cast<int>(std::max<std::int64_t>(left.count(), 0)));
      if (woken == 0) return End::interrupted;
      if (woken == 1 && !balancer_.take_output()) return End::balancer_ended;
      if (woken < 0 || Clock::now() >= moment) return std::nullopt;
    }
  }

  Balancer& balancer_;
  const Interrupts& interrupts_;
  Spares& spares_;
  std::uint64_t seed_;
  std::vector<Stretch> stretches_;
  Duration worst_{};  // p99 of any second
  std::string why_;
};

int complain(const std::string& what, int code) {
  fmt::print(stderr, "evenkeel demo: {}\n", what);
  return code;
}

}  // namespace

int run_blast(const DemoOptions& options) {
  const auto& pickers = picker_names();
  if (std::find(pickers.begin(), pickers.end(), options.picker) == pickers.end()) {
    return complain(
        fmt::format("--picker: '{}' is none of {}", options.picker, fmt::join(pickers, ", ")), 2);
  }
  const Interrupts interrupts;
  auto simulators = Simulators::start(simulator_options(options.seed));
  if (!simulators) return complain(simulators.error().detail, 1);
  const auto& servers = (*simulators)->endpoints();
  auto balancer = Balancer::start(this_program(), balancer_config(options, servers), interrupts,
                                  start_patience);
  if (!balancer) return complain(balancer.error().detail, 1);

  fmt::print(
      "evenkeel demo: {} servers and {} spares behind one balancer ({}); {:.1f} requests a "
      "second, then {:.0f} for {:.0f} s\n\n  metrics     http://{}/metrics\n  admin       "
      "http://{}/api/v1/backends\n\n",
      actives, spares, options.picker, calm_rate, calm_rate * jump, seconds_of(blast),
      (*balancer)->admin_address(), (*balancer)->admin_address());
  std::fflush(stdout);

  Spares spares_seen(**balancer, servers);
  Blast scenario(**balancer, interrupts, spares_seen, options.seed);
  const End end = scenario.run();
  if (end == End::interrupted) return complain("interrupted", 1);
  if (end == End::could_not_start) return complain(scenario.why(), 1);
  const int code = (*balancer)->stop(drain_patience);
  if (end == End::balancer_ended || code != 0) {
    return complain(fmt::format("the balancer ended with {}:\n{}", code, (*balancer)->last_words()),
                    1);
  }
  return scenario.judge() ? 0 : 1;
}

}  // namespace evenkeel
