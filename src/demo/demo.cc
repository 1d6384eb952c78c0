#include "evenkeel/demo/demo.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <optional>
#include <utility>
#include <vector>

#include "demo/backend_table.h"
#include "demo/balancer_process.h"
#include "demo/blast.h"
#include "evenkeel/base/termination_signals.h"
#include "evenkeel/load/run.h"
#include "evenkeel/sim/presets.h"
#include "evenkeel/sim/simulators.h"

namespace evenkeel {
namespace {

constexpr unsigned max_backends = 64;
constexpr double rate_per_backend =
    12;  // streams of about 60 tokens: every GPU busy, none overloaded

/// The GPUs to simulate; they repeat where there are more backends.
struct Gpu {
  const char* name;
  const char* preset;
  double speed;
};
constexpr Gpu gpus[] = {
    {"H100", "llama-3-8b-h100", 1},
    {"A100", "llama-3-8b-a100", 1},
    {"H100 at 60 %", "llama-3-8b-h100", 0.6},
    {"A100 at 40 %", "llama-3-8b-a100", 0.4},
};

const Gpu& gpu_of(std::size_t index) { return gpus[index % std::size(gpus)]; }

std::string model_name() { return find_preset(gpus[0].preset)->model; }

std::vector<SimulatorOptions> simulator_options(const DemoOptions& options) {
  std::vector<SimulatorOptions> servers;
  for (unsigned i = 0; i < options.backends; ++i) {
    servers.push_back({.name = "sim-" + std::to_string(i),
                       .preset = gpu_of(i).preset,
                       .model = model_name(),
                       .speed = gpu_of(i).speed,
                       .seed = options.seed + i});
  }
  return servers;
}

std::string balancer_config(const DemoOptions& options, const std::vector<Endpoint>& servers) {
  PoolConfig pool{.name = "demo", .picker = {{.name = options.picker}}};
  pool.inspect = true;  // for the tokens and requests of the live page
  for (std::size_t i = 0; i < servers.size(); ++i) {
    pool.backends.push_back(
        {.address = {servers[i].host(), servers[i].port()}, .labels = {{"gpu", gpu_of(i).name}}});
  }
  return config_of(std::move(pool));
}

LoadOptions load_options(const DemoOptions& options, const BalancerProcess& balancer) {
  LoadOptions load = streams_to(balancer, model_name());
  load.rate = options.rate > 0 ? options.rate : rate_per_backend * options.backends;
  load.duration = std::chrono::seconds(options.seconds);
  load.seed = options.seed;
  return load;
}

void print_banner(const std::vector<BackendRow>& rows, const BalancerProcess& balancer,
                  const Simulators& simulators, const DemoOptions& options) {
  const std::string& address = balancer.public_address();
  const std::string& admin = balancer.admin_address();
  fmt::print("evenkeel demo: {} simulated GPUs of unequal speed behind one balancer ({})\n\n",
             rows.size(), options.picker);
  fmt::print("  live page   http://{}/ui/\n", admin);
  fmt::print("  balancer    http://{}\n", address);
  fmt::print("  metrics     http://{}/metrics\n", admin);
  fmt::print("  admin       http://{}/api/v1/backends\n", admin);
  for (const BackendRow& row : rows) fmt::print("  simulator   http://{}  {}\n", row.id, row.gpu);
  if (const auto control = simulators.control()) {
    fmt::print("  faults      curl -X PUT 'http://{}/sim/v1/state?server=sim-0' -d '{}'\n",
               control->text(), R"({"fault":"slow","slow_factor":4})");
  }
  fmt::print(
      "  try         curl -N http://{}/v1/chat/completions -H 'content-type: application/json' "
      "-d '{{\"model\":\"{}\",\"stream\":true,\"max_tokens\":32,"
      "\"messages\":[{{\"role\":\"user\",\"content\":\"hello\"}}]}}'\n\n",
      address, model_name());
  std::fflush(stdout);
}

/// Shows the state of load and backends.
class StatusDisplay {
 public:
  StatusDisplay(const BalancerProcess& balancer, LoadRun& run, std::vector<BackendRow> rows)
      : run_(run),
        rows_(std::move(rows)),
        admin_address_(balancer.admin_address()),
        terminal_(isatty(STDOUT_FILENO) == 1),
        refreshed_at_(Clock::now()) {}

  void refresh() {
    const LoadReport window = run_.take_window();
    const Instant now = Clock::now();
    const double seconds = seconds_of(now - std::exchange(refreshed_at_, now));
    fetch_rows(rows_, admin_address_);
    const auto render = terminal_ ? render_table : render_line;
    const std::string text = render(rows_, run_.report(), window, seconds, run_.in_flight());
    if (terminal_ && lines_printed_ > 0) fmt::print("\x1b[{}A\x1b[J", lines_printed_);
    lines_printed_ = std::count(text.begin(), text.end(), '\n');
    // Without line wrapping, so that the next table knows how many lines to go up.
    fmt::print("{}{}{}", terminal_ ? "\x1b[?7l" : "", text, terminal_ ? "\x1b[?7h" : "");
    std::fflush(stdout);
  }

  Instant next_refresh() const { return refreshed_at_ + std::chrono::seconds(1); }

 private:
  LoadRun& run_;
  std::vector<BackendRow> rows_;
  std::string admin_address_;
  bool terminal_;
  Instant refreshed_at_;
  std::ptrdiff_t lines_printed_ = 0;
};

enum class End { done, interrupted, balancer_ended };

End refresh_until_end(StatusDisplay& display, BalancerProcess& balancer, const LoadRun& run,
                      const TerminationSignals& interrupts) {
  const int fds[] = {interrupts.fd(), run.done_fd(), balancer.output_fd()};
  for (;;) {
    const int woken = wait_any_readable(fds, display.next_refresh());
    if (woken == 0) return End::interrupted;
    if (woken == 1) return End::done;
    if (woken == 2 && !balancer.take_output()) return End::balancer_ended;
    if (Clock::now() >= display.next_refresh()) display.refresh();
  }
}

int report_error(const Error& error, int code) {
  fmt::print(stderr, "evenkeel demo: {}\n", error.detail);
  return code;
}

std::optional<std::string> validate(const DemoOptions& options) {
  const bool has_backends = options.scenario != "blast";
  if (has_backends && (options.backends < 1 || options.backends > max_backends)) {
    return fmt::format("--backends: expected 1 to {}", max_backends);
  }
  return std::nullopt;
}

}  // namespace

int run_demo(const DemoOptions& options) {
  if (const auto why = validate(options)) return report_error({.detail = *why}, 2);
  if (options.scenario == "blast") {
    const auto code = run_blast(options);
    return code ? *code : report_error(code.error(), 1);
  }
  const TerminationSignals interrupts;

  auto simulators = Simulators::start(simulator_options(options), 1, Address{"127.0.0.1", 0});
  if (!simulators) return report_error(simulators.error(), 1);
  const auto& servers = (*simulators)->endpoints();
  auto balancer = BalancerProcess::start(executable_path(), balancer_config(options, servers),
                                         interrupts, BalancerProcess::start_timeout);
  if (!balancer) return report_error(balancer.error(), 1);
  const LoadOptions load = load_options(options, **balancer);
  auto run = LoadRun::start(load);
  if (!run) return report_error(run.error(), 1);

  std::vector<BackendRow> rows;
  for (std::size_t i = 0; i < servers.size(); ++i) {
    rows.push_back({.id = servers[i].text(), .gpu = gpu_of(i).name});
  }
  print_banner(rows, **balancer, **simulators, options);
  StatusDisplay display(**balancer, **run, std::move(rows));
  const End end = refresh_until_end(display, **balancer, **run, interrupts);
  (*run)->stop();
  display.refresh();

  const LoadReport& report = (*run)->report();
  const int code = (*balancer)->stop(BalancerProcess::drain_timeout);
  fmt::print("\n{}", render_report(load, report));
  if (end == End::balancer_ended || code != 0) {
    fmt::print(stderr, "evenkeel demo: the balancer ended with {}:\n{}", code,
               (*balancer)->last_output());
    return 1;
  }
  const bool unanswered = report.abandoned != 0 && end != End::interrupted;
  return report.failed == 0 && !unanswered ? 0 : 1;
}

}  // namespace evenkeel
