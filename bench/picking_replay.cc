// Replays a trace through our pickers and through the re-implemented rules of other routers, and
// prints a line of JSON for each. harness/picking_replay.py makes the tables.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "bench/flags.h"
#include "bench/rivals/rivals.h"
#include "evenkeel/replay/replay.h"
#include "evenkeel/sim/presets.h"

namespace evenkeel::bench {
namespace {

Duration duration_of(double seconds) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
}

double real_of(const std::string& text) { return std::strtod(text.c_str(), nullptr); }

ReplayOptions read_options(Flags& flags) {
  const std::string preset = flags.text("--preset", "reference");
  if (find_preset(preset) == nullptr) exit_with_usage_error("unknown preset " + preset);
  ReplayOptions options{.engine = find_preset(preset)->engine};
  options.backends = static_cast<std::uint32_t>(flags.number("--backends", options.backends));
  for (const auto& text : flags.all("--backend-speed")) options.speeds.push_back(real_of(text));
  options.speed = flags.real("--speed", options.speed);
  options.bursts = true;  // the stamps are final
  if (const double most = flags.real("--max-seconds", 0); most > 0) {
    options.max_time = duration_of(most);
  }
  if (const double factor = flags.real("--slow-first-backend", 0); factor > 0) {
    options.slowdowns = {{.factor = factor, .at = duration_of(flags.real("--slow-at", 0))}};
  }
  options.shed = flags.real("--shed", options.shed);
  options.seed = flags.number("--seed", options.seed);
  return options;
}

ReplayRow row_of(const Trace& trace, ReplayOptions options, const std::string& rule) {
  const Rival* const rival = find_rival(rule);
  if (rival == nullptr) return replay(trace, options, rule);
  options.poll_interval = rival->poll_interval;
  return replay(trace, options, rule, rival->make);
}

void print(const ReplayRow& row) {
  std::printf(R"({"rule": "%s", "backends": %u, "requests": %zu, "goodput_ratio": %.6f, )",
              row.picker.c_str(), row.backends, row.requests, row.goodput_ratio);
  std::printf(R"("ttft_p50": %.6f, "ttft_p90": %.6f, "ttft_p99": %.6f, )", row.ttft_p50,
              row.ttft_p90, row.ttft_p99);
  std::printf(R"("slowdown_p90": %.4f, "slowdown_p99": %.4f, )", row.slowdown_p90,
              row.slowdown_p99);
  std::printf(R"("e2e_p50": %.6f, "e2e_p99": %.6f, "tpot_p50": %.6f, "tpot_p99": %.6f, )",
              row.e2e_p50, row.e2e_p99, row.tpot_p50, row.tpot_p99);
  std::printf(R"("hit_ratio": %.6f, "utilization_ratio": %.6f, "imbalance": %.4f, )", row.hit_ratio,
              row.utilization_ratio, row.imbalance);
  std::printf(R"("shed": %zu, "unfinished": %zu, "left_out": %zu})"
              "\n",
              row.shed, row.unfinished, row.left_out);
  std::fflush(stdout);
}

bool known(std::string_view rule) {
  const auto& pickers = picker_names();
  return find_rival(rule) != nullptr ||
         std::find(pickers.begin(), pickers.end(), rule) != pickers.end();
}

int run(int argument_count, char** arguments) {
  Flags flags(argument_count, arguments);
  const ReplayOptions options = read_options(flags);
  const std::string path = flags.text("--trace", "");
  const std::vector<std::string> rules = flags.all("--rule");
  flags.reject_unknown();
  for (const auto& rule : rules) {
    if (!known(rule)) exit_with_usage_error("unknown rule " + rule);
  }
  const auto trace = read_trace(path);
  if (!trace) {
    std::fprintf(stderr, "%s\n", trace.error().detail.c_str());
    return 1;
  }
  for (const auto& rule : rules) print(row_of(*trace, options, rule));
  return 0;
}

}  // namespace
}  // namespace evenkeel::bench

int main(int argc, char** argv) { return evenkeel::bench::run(argc, argv); }
