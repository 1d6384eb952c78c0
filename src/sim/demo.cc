#include "evenkeel/sim/demo.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "evenkeel/config/load.h"
#include "evenkeel/fleet/fetch.h"
#include "evenkeel/sim/presets.h"
#include "evenkeel/sim/simulators.h"
#include "sim/demo_balancer.h"
#include "sim/demo_blast.h"
#include "sim/demo_table.h"
#include "sim/interrupts.h"
#include "sim/load_run.h"

namespace evenkeel {
namespace {

constexpr unsigned most_backends = 64;
constexpr double rate_per_backend = 12;  // streams of about 60 tokens: all GPUs busy, none drowned
constexpr Duration start_patience = std::chrono::seconds(15);
constexpr Duration drain_patience = std::chrono::seconds(20);
constexpr Duration ask_patience = std::chrono::milliseconds(500);

/// What each simulated server plays, over and over.
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

/// The file of a balancer in front of these servers, as an operator would write it.
std::string balancer_config(const DemoOptions& options, const std::vector<Endpoint>& servers) {
  PoolConfig pool{
      .name = "demo", .engine = "vllm", .picker = options.picker, .debug_headers = true};
  for (std::size_t i = 0; i < servers.size(); ++i) {
    pool.backends.push_back(
        {.address = {servers[i].host(), servers[i].port()}, .labels = {{"gpu", gpu_of(i).name}}});
  }
  Config config;
  config.listeners.front().address = {"127.0.0.1", 0};
  config.admin.address = {"127.0.0.1", 0};
  config.pools.push_back(std::move(pool));
  config.routes.push_back({.name = "all", .targets = {{.pool = "demo"}}});
  config.access_log.path = "off";
  config.shutdown.drain = std::chrono::seconds(5);
  return print_config(config, false);
}

LoadOptions load_options(const DemoOptions& options, const Balancer& balancer) {
  return {.url = "http://" + balancer.public_address(),
          .rate = options.rate > 0 ? options.rate : rate_per_backend * options.backends,
          .poisson = true,
          .duration = std::chrono::seconds(options.seconds),
          .prompt_tokens = {64, 1024},
          .output_tokens = {16, 96},
          .stream = true,
          .model = model_name(),
          .timeout = std::chrono::seconds(30),
          .drain = drain_patience,
          .seed = options.seed};
}

void print_welcome(const std::vector<DemoRow>& rows, const Balancer& balancer,
                   const Simulators& simulators, const DemoOptions& options) {
  const std::string& address = balancer.public_address();
  const std::string& admin = balancer.admin_address();
  fmt::print("evenkeel demo: {} simulated GPUs of unequal speed behind one balancer ({})\n\n",
             rows.size(), options.picker);
  fmt::print("  balancer    http://{}\n", address);
  fmt::print("  metrics     http://{}/metrics\n", admin);
  fmt::print("  admin       http://{}/api/v1/backends\n", admin);
  for (const DemoRow& row : rows) fmt::print("  simulator   http://{}  {}\n", row.id, row.gpu);
  if (const auto control = simulators.control()) {
    fmt::print("  faults      curl -X PUT 'http://{}/sim/v1/state?server=sim-0' -d '{}'\n",
               control->text(), R"({"slow_factor":4})");
  }
  fmt::print(
      "  try         curl -N http://{}/v1/chat/completions -H 'content-type: application/json' "
      "-d '{{\"model\":\"{}\",\"stream\":true,\"max_tokens\":32,"
      "\"messages\":[{{\"role\":\"user\",\"content\":\"hello\"}}]}}'\n\n",
      address, model_name());
  std::fflush(stdout);
}

/// Shows how the load fares until it ends.
class Watcher {
 public:
  Watcher(const Balancer& balancer, LoadRun& run, std::vector<DemoRow> rows)
      : run_(run),
        rows_(std::move(rows)),
        admin_address_(balancer.admin_address()),
        terminal_(isatty(STDOUT_FILENO) == 1),
        shown_at_(Clock::now()) {
    auto target = find_target("http://" + admin_address_);
    if (target) admin_ = target->endpoints.front();
  }

  void show() {
    const LoadReport window = run_.take_window();
    const Instant now = Clock::now();
    const double seconds = seconds_of(now - std::exchange(shown_at_, now));
    const auto backends =
        fetch_now({.addresses = {admin_}, .authority = admin_address_, .path = "/api/v1/backends"},
                  ask_patience);
    if (backends && backends->status == 200 && backends->whole) update_rows(rows_, backends->body);
    const auto render = terminal_ ? render_table : render_line;
    const std::string text = render(rows_, run_.report(), window, seconds, run_.in_flight());
    if (terminal_ && lines_shown_ > 0) fmt::print("\x1b[{}A\x1b[J", lines_shown_);
    lines_shown_ = std::count(text.begin(), text.end(), '\n');
    // No wrapping on a narrow terminal: the next table must know how many lines to go up.
    fmt::print("{}{}{}", terminal_ ? "\x1b[?7l" : "", text, terminal_ ? "\x1b[?7h" : "");
    std::fflush(stdout);
  }

  Instant next_show() const { return shown_at_ + std::chrono::seconds(1); }

 private:
  LoadRun& run_;
  std::vector<DemoRow> rows_;
  std::string admin_address_;
  Endpoint admin_;
  bool terminal_;
  Instant shown_at_;
  std::ptrdiff_t lines_shown_ = 0;
};

enum class End { done, interrupted, balancer_ended };

End watch(Watcher& watcher, Balancer& balancer, const LoadRun& run, const Interrupts& interrupts) {
  const int fds[] = {interrupts.fd(), run.done_fd(), balancer.output_fd()};
  for (;;) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(watcher.next_show() - Clock::now());
    const int woken =
        wait_for_any(fds, 3, static_cast<int>(std::max<std::int64_t>(left.count(), 0)));
    if (woken == 0) return End::interrupted;
    if (woken == 1) return End::done;
    if (woken == 2 && !balancer.take_output()) return End::balancer_ended;
    if (Clock::now() >= watcher.next_show()) watcher.show();
  }
}

int complain(const Error& error, int code) {
  fmt::print(stderr, "evenkeel demo: {}\n", error.detail);
  return code;
}

std::optional<std::string> unfit(const DemoOptions& options) {
  if (options.backends < 1 || options.backends > most_backends) {
    return fmt::format("--backends: expected 1 to {}", most_backends);
  }
  const auto& pickers = picker_names();
  if (std::find(pickers.begin(), pickers.end(), options.picker) == pickers.end()) {
    return fmt::format("--picker: '{}' is none of {}", options.picker, fmt::join(pickers, ", "));
  }
  return std::nullopt;
}

}  // namespace

int run_demo(const DemoOptions& options) {
  if (options.scenario == "blast") return run_blast(options);
  if (const auto why = unfit(options)) return complain({.detail = *why}, 2);
  const Interrupts interrupts;

  auto simulators = Simulators::start(simulator_options(options), 1, Address{"127.0.0.1", 0});
  if (!simulators) return complain(simulators.error(), 1);
  const auto& servers = (*simulators)->endpoints();
  auto balancer = Balancer::start(this_program(), balancer_config(options, servers), interrupts,
                                  start_patience);
  if (!balancer) return complain(balancer.error(), 1);
  auto run = LoadRun::begin(load_options(options, **balancer));
  if (!run) return complain(run.error(), 1);

  std::vector<DemoRow> rows;
  for (std::size_t i = 0; i < servers.size(); ++i) {
    rows.push_back({.id = servers[i].text(), .gpu = gpu_of(i).name});
  }
  print_welcome(rows, **balancer, **simulators, options);
  Watcher watcher(**balancer, **run, std::move(rows));
  const End end = watch(watcher, **balancer, **run, interrupts);
  (*run)->stop();
  watcher.show();

  const LoadReport& report = (*run)->report();
  const int code = (*balancer)->stop(drain_patience);
  fmt::print("\n{}", render_report(report));
  if (end == End::balancer_ended || code != 0) {
    fmt::print(stderr, "evenkeel demo: the balancer ended with {}:\n{}", code,
               (*balancer)->last_words());
    return 1;
  }
  const bool unanswered = report.abandoned != 0 && end != End::interrupted;
  return report.failed == 0 && !unanswered ? 0 : 1;
}

}  // namespace evenkeel
