// The verb `replay`.
#include "evenkeel/replay/replay.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/option_values.h"
#include "cli/replay_text.h"
#include "cli/verbs.h"
#include "evenkeel/base/decimal.h"
#include "evenkeel/base/exit_codes.h"
#include "evenkeel/sim/presets.h"

namespace evenkeel {
namespace {

constexpr std::uint32_t max_searched_backends = 1024;

// The least factor of speeds and slowdowns: beyond these a replay says nothing.
constexpr double min_factor = 1e-3;
constexpr double max_factor = 1e3;
constexpr double max_slowdown_seconds = 1e9;

/// The command line of a replay.
struct ReplayCommand {
  std::string trace;
  std::string preset = "reference";
  std::vector<std::string> pickers = {"expected-time"};
  ReplayOptions options;
  std::optional<double> goodput;  ///< search for the fewest backends that reach it
  bool json = false;
};

bool is_factor(double number) { return number >= min_factor && number <= max_factor; }

/// Checks the range of a factor: CLI::Range takes NaN for a number in any range.
CLI::Validator factor_validator() {
  const auto check = [](const std::string& text) -> std::string {
    const auto number = parse_number<double>(text);
    if (number && is_factor(*number)) return "";
    return fmt::format("'{}' is no number from {} to {}", text, min_factor, max_factor);
  };
  return {check, fmt::format("FLOAT in [{} - {}]", min_factor, max_factor)};
}

/// BACKEND:FACTOR@SECONDS, such as 0:4@120.
EngineSlowdown parse_slowdown(std::string_view text) {
  const std::size_t colon = std::min(text.find(':'), text.size());
  const std::size_t at = std::min(text.find('@', colon), text.size());
  const auto after = [&](std::size_t mark) { return std::min(mark + 1, text.size()); };
  const auto backend = parse_number<std::uint32_t>(text.substr(0, colon));
  const auto factor = parse_number<double>(text.substr(after(colon), at - after(colon)));
  const auto seconds = parse_number<double>(text.substr(after(at)));
  if (!backend || !factor || !seconds || !(*seconds >= 0 && *seconds <= max_slowdown_seconds)) {
    throw CLI::ValidationError(
        "--slowdown", fmt::format("'{}': expected BACKEND:FACTOR@SECONDS, such as 0:4@120", text));
  }
  if (!is_factor(*factor)) {
    throw CLI::ValidationError("--slowdown", fmt::format("'{}': the factor must be from {} to {}",
                                                         text, min_factor, max_factor));
  }
  return {.backend = *backend,
          .factor = *factor,
          .at = std::chrono::duration_cast<Duration>(std::chrono::duration<double>(*seconds))};
}

std::optional<ReplayRow> row_of(const ReplayCommand& command, const Trace& trace,
                                const std::string& picker) {
  if (!command.goodput) return replay(trace, command.options, picker);
  return replay_with_fewest_backends(trace, command.options, picker, *command.goodput,
                                     max_searched_backends);
}

int run_replay(ReplayCommand& command) {
  for (const EngineSlowdown& slowdown : command.options.slowdowns) {
    const std::uint32_t most = command.goodput ? max_searched_backends : command.options.backends;
    if (slowdown.backend < most) continue;
    fmt::print(stderr, "evenkeel replay: --slowdown: there is no backend {}\n", slowdown.backend);
    return exit_usage;
  }
  const auto trace = read_trace(command.trace);
  if (!trace) {
    fmt::print(stderr, "evenkeel replay: {}\n", trace.error().detail);
    return exit_failed;
  }
  if (trace->left_out > 0) {
    fmt::print(stderr, "evenkeel replay: left out {} lines without counts of tokens\n",
               trace->left_out);
  }
  command.options.engine = find_preset(command.preset)->engine;
  std::vector<ReplayRow> rows;
  for (const std::string& picker : command.pickers) {
    auto row = row_of(command, *trace, picker);
    if (!row) {
      fmt::print(stderr, "evenkeel replay: {}: {} backends do not reach a goodput of {}\n", picker,
                 max_searched_backends, *command.goodput);
      return exit_failed;
    }
    rows.push_back(std::move(*row));
  }
  if (!rows.empty() && rows.front().left_out > 0) {
    fmt::print(stderr, "evenkeel replay: left out {} requests that do not fit into an engine\n",
               rows.front().left_out);
  }
  fmt::print("{}", command.json ? replay_json(rows) : replay_table(rows));
  return exit_done;
}

void add_fleet_options(CLI::App& verb, const std::shared_ptr<ReplayCommand>& command) {
  ReplayOptions& options = command->options;
  auto* backends = verb.add_option("--backends", options.backends, "Simulated engines")
                       ->check(CLI::Range(1u, 10'000u))
                       ->capture_default_str();
  verb.add_option("--preset", command->preset, "GPU and model of each")
      ->check(one_of(preset_names()))
      ->capture_default_str();
  verb.add_option("--speeds", options.speeds,
                  "Speed of each, relative to the preset, such as 1,1,.5; repeated")
      ->delimiter(',')
      ->check(factor_validator());
  verb.add_option_function<std::vector<std::string>>(
          "--slowdown",
          [command](const std::vector<std::string>& texts) {
            for (const std::string& text : texts) {
              command->options.slowdowns.push_back(parse_slowdown(text));
            }
          },
          "From then on the steps of a backend take FACTOR times as long; may be repeated")
      ->type_name("BACKEND:FACTOR@SECONDS");
  verb.add_option("--fewest-backends", command->goodput,
                  "Search for the fewest backends with this goodput, such as 0.95")
      ->check(CLI::Range(0.0, 1.0))
      ->excludes(backends);
}

void add_trace_options(CLI::App& verb, const std::shared_ptr<ReplayCommand>& command) {
  ReplayOptions& options = command->options;
  verb.add_option("--trace", command->trace, "File with arrival times and lengths")
      ->required()
      ->type_name("FILE");
  verb.add_option("--speed", options.speed, "Divide the trace's times by this")
      ->check(factor_validator())
      ->capture_default_str();
  verb.add_flag("--bursts", options.bursts, "Keep requests with the same time stamp together");
  add_duration_option(verb, "--max-seconds", "Use only this much of the trace, in replay time",
                      [command](Duration time) { command->options.max_time = time; });
  verb.add_flag("--sessions", options.sessions,
                "Clients name their conversations, which are soft sessions of expected-time: a "
                "prompt that goes on from an earlier one is of its session");
  verb.add_option("--unstreamed", options.unstreamed_ratio,
                  "Share of the requests whose responses are not streamed")
      ->check(CLI::Range(0.0, 1.0));
  verb.add_option("--seed", options.seed, "Seed of random numbers")->capture_default_str();
}

}  // namespace

void add_replay_verb(CLI::App& app, Invocation& invocation) {
  auto* verb = app.add_subcommand(
      "replay", "Replay a trace in virtual time through the scheduler and the pickers");
  auto command = std::make_shared<ReplayCommand>();
  add_trace_options(*verb, command);
  add_fleet_options(*verb, command);
  verb->add_option("--picker", command->pickers, "Pickers to compare; a row for each")
      ->delimiter(',')
      ->check(one_of(picker_names()))
      ->capture_default_str();
  add_duration_option(*verb, "--ttft-slo",
                      "Time to first token that is good, or 3 times the unloaded one; default: 2s",
                      [command](Duration time) {
                        command->options.slo.ttft =
                            std::chrono::duration_cast<std::chrono::milliseconds>(time);
                      });
  add_duration_option(
      *verb, "--tpot-slo", "Mean time per output token that is good; default: 100ms",
      [command](Duration time) {
        command->options.slo.tpot = std::chrono::duration_cast<std::chrono::milliseconds>(time);
      });
  verb->add_option("--shed", command->options.shed,
                   "expected-time: refuse requests whose prefill would end later than this many "
                   "times their TTFT target; 0: never")
      ->check(CLI::NonNegativeNumber);
  verb->add_flag("--json", command->json, "Print the rows as JSON");
  verb->footer(
      "Exit codes: 0 done, 1 the trace cannot be read or no number of backends is enough, "
      "2 usage.");
  verb->callback([command, &invocation] { invocation.exit_code = run_replay(*command); });
}

}  // namespace evenkeel
