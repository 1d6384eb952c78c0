// Arguments to a verb.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include "evenkeel/cli/ctl.h"
#include "evenkeel/cli/quick.h"
#include "evenkeel/cli/top.h"
#include "evenkeel/config/load.h"
#include "evenkeel/demo/demo.h"
#include "evenkeel/load/load.h"
#include "evenkeel/server/daemon.h"
#include "evenkeel/server/process_environment.h"
#include "evenkeel/sim/sim.h"

#ifndef EVENKEEL_VERSION
#define EVENKEEL_VERSION "unknown"
#endif

namespace {

constexpr int exit_usage = 2;

int print(const evenkeel::CommandOutput& output) {
  std::fwrite(output.out.data(), 1, output.out.size(), stdout);
  std::fwrite(output.err.data(), 1, output.err.size(), stderr);
  return output.exit_code;
}

int print_version(bool json) {
  if (json) {
    std::printf("{\"version\":\"%s\",\"compiler\":\"%s\"}\n", EVENKEEL_VERSION, __VERSION__);
  } else {
    std::printf("evenkeel %s\n", EVENKEEL_VERSION);
  }
  return 0;
}

/// What the command line asks for.
struct Arguments {
  std::string config_file;
  bool json = false;
  bool offline = false;
  bool defaults = false;
};

void add_config_option(CLI::App& verb, Arguments& arguments) {
  verb.add_option("-c,--config", arguments.config_file,
                  "the configuration file; - for standard input")
      ->required();
}

/// "30s", "500ms", "100us", "2m", "1h", or a number of seconds.
evenkeel::Duration parse_duration(const std::string& text) {
  std::size_t used = 0;
  double amount = -1;
  try {
    amount = std::stod(text, &used);
  } catch (const std::exception&) {
    used = 0;
  }
  const std::string unit = text.substr(used);
  const double seconds = unit == "us"                  ? 1e-6
                         : unit == "ms"                ? 1e-3
                         : unit.empty() || unit == "s" ? 1
                         : unit == "m"                 ? 60
                         : unit == "h"                 ? 3600
                                                       : -1;
  if (used == 0 || !(amount >= 0) || amount > 1e9 || seconds < 0) {
    throw CLI::ValidationError("'" + text + "' is no duration; write 30s, 500ms or 2m");
  }
  return std::chrono::duration_cast<evenkeel::Duration>(
      std::chrono::duration<double>(amount * seconds));
}

/// Turns what a parser of the load generator found wrong into a mistake on the command line.
template <class T>
T value_or_usage_error(evenkeel::Result<T> parsed) {
  if (!parsed) throw CLI::ValidationError(parsed.error().detail);
  return std::move(*parsed);
}

constexpr const char* quick_help =
    R"(Asks each server which engine it runs and which models it serves, prints the file that this comes to
on stdout (all else goes to stderr) and serves it:
  evenkeel quick http://gpu1:8000 http://gpu2:8000 > evenkeel.yaml
All servers form one pool, for the models that every one of them has. Servers with no model in common
are refused: requests are not routed by model, so start one balancer for each model. A server that does
not answer stays in the pool, as one that loads its model does not answer either; when none answers,
nothing is served.
)";

void add_quick(CLI::App& app, int& exit_code) {
  auto* verb = app.add_subcommand("quick", "serve these servers, without a file");
  verb->footer(quick_help);
  auto options = std::make_shared<evenkeel::QuickOptions>();
  options->serve = [](const std::string& config_text) {
    return evenkeel::run_daemon_with(config_text, EVENKEEL_VERSION);
  };
  verb->add_option("url", options->urls, "http://host:port of each server")->required();
  verb->add_option("--listen", options->listen, "where clients connect")->capture_default_str();
  verb->add_option("--admin", options->admin, "where operators connect")->capture_default_str();
  verb->add_option("--picker", options->picker, "who chooses: round-robin, weighted, ...")
      ->capture_default_str();
  verb->callback([options, &exit_code] { exit_code = evenkeel::run_quick(*options); });
}

/// `infer` and ModelInfer, as Triton's dynamic batcher runs them.
void add_batching(CLI::App& verb, evenkeel::BatchingSpec& batching) {
  verb.add_option("--max-batch", batching.max_batch_size, "infer: most items in a batch; 0: none")
      ->capture_default_str();
  verb.add_option("--preferred-batch", batching.preferred_sizes,
                  "infer: sizes that a batch need not grow beyond, such as 4,8")
      ->delimiter(',');
  verb.add_option_function<std::string>(
      "--max-queue-delay",
      [&batching](const std::string& text) { batching.max_queue_delay = parse_duration(text); },
      "infer: how long a request may wait for others, such as 100us; default: not at all");
  verb.add_option("--max-queue-size", batching.max_queue_size,
                  "infer: most requests that wait; 0: any number")
      ->capture_default_str();
  verb.add_option("--instances", batching.instances, "infer: batches at a time")
      ->capture_default_str();
  verb.add_option_function<std::string>(
      "--batch-time",
      [&batching](const std::string& text) {
        batching.batch_seconds = evenkeel::seconds_of(parse_duration(text));
      },
      "infer: what every batch takes; default: 2ms");
  verb.add_option_function<std::string>(
      "--item-time",
      [&batching](const std::string& text) {
        batching.item_seconds = evenkeel::seconds_of(parse_duration(text));
      },
      "infer: and each of its items; default: 500us");
}

void add_sim(CLI::App& app, int& exit_code) {
  auto* verb = app.add_subcommand("sim", "simulated inference servers");
  auto options = std::make_shared<evenkeel::SimOptions>();
  verb->add_option("--listen", options->listen,
                   "address of the first; the others follow port by port")
      ->capture_default_str();
  verb->add_option("--count", options->count, "how many servers")->capture_default_str();
  verb->add_option("--engine", options->engine, "whose dialect they speak")->capture_default_str();
  verb->add_option("--preset", options->preset, "a GPU and a model")->capture_default_str();
  verb->add_option("--model", options->model, "name of the model; default: the preset's");
  verb->add_option("--speed", options->speed, "10 runs ten times faster than life")
      ->capture_default_str();
  verb->add_option("--seed", options->seed, "of what is drawn at random")->capture_default_str();
  verb->add_option("--threads", options->threads, "event loops")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  verb->add_option("--control", options->control, "control listener for all of them")
      ->capture_default_str();
  verb->add_flag("--prompt-tokens-details", options->prompt_tokens_details,
                 "usage tells how many prompt tokens were cached");
  add_batching(*verb, options->batching);
  verb->callback([options, &exit_code] { exit_code = evenkeel::run_sim(*options); });
}

/// Words of the load generator's command line that need more than a conversion.
struct LoadArguments {
  std::string duration;
  std::string max_seconds;
  std::string prompt_tokens;
  std::string output_tokens;
  std::vector<std::string> headers;
};

void add_load(CLI::App& app, int& exit_code) {
  auto* verb = app.add_subcommand("load", "send chat completions and measure");
  auto options = std::make_shared<evenkeel::LoadOptions>();
  auto words = std::make_shared<LoadArguments>();
  verb->add_option("url", options->url, "http://host[:port][/base]")->required();
  auto* rate = verb->add_option("--rate", options->rate, "requests per second, answered or not")
                   ->check(CLI::PositiveNumber);
  auto* clients =
      verb->add_option("--concurrency", options->concurrency, "clients that wait for their answers")
          ->check(CLI::PositiveNumber);
  auto* trace = verb->add_option("--trace", options->trace, "arrivals and lengths from a file");
  rate->excludes(clients)->excludes(trace);
  clients->excludes(trace);
  verb->add_option("--trace-speed", options->trace_speed, "divides the trace's times");
  verb->add_flag("--trace-bursts", options->trace_bursts,
                 "keep a quantised trace's batches together");
  verb->add_option("--max-seconds", words->max_seconds, "of the trace's own time");
  verb->add_option("--max-prompt-tokens", options->max_prompt_tokens, "cut a trace's prompts");
  verb->add_flag("--poisson", options->poisson, "with --rate: exponential gaps");
  verb->add_option("--duration", words->duration, "no request starts later");
  verb->add_option("--requests", options->requests, "how many at most");
  verb->add_option("--prompt-tokens", words->prompt_tokens, "N or A..B");
  verb->add_option("--output-tokens", words->output_tokens, "N or A..B");
  verb->add_flag("--stream", options->stream, "ask for server-sent events");
  verb->add_option("--model", options->model, "default: the first that the server lists");
  verb->add_option("--header", words->headers, "'Name: value'; may be repeated");
  verb->add_option("--seed", options->seed, "of what is drawn at random");
  verb->add_option("--threads", options->threads, "event loops");
  verb->add_flag("--json", options->json, "the report as JSON");
  verb->callback([options, words, &exit_code] {
    if (!words->duration.empty()) {
      options->duration = parse_duration(words->duration);
      if (options->duration.count() == 0)
        throw CLI::ValidationError("--duration must be more than 0");
    }
    if (!words->max_seconds.empty()) options->trace_cut = parse_duration(words->max_seconds);
    if (!words->prompt_tokens.empty()) {
      options->prompt_tokens =
          value_or_usage_error(evenkeel::parse_token_range(words->prompt_tokens));
    }
    if (!words->output_tokens.empty()) {
      options->output_tokens =
          value_or_usage_error(evenkeel::parse_token_range(words->output_tokens));
    }
    for (const std::string& header : words->headers) {
      options->headers.push_back(value_or_usage_error(evenkeel::parse_header_option(header)));
    }
    exit_code = evenkeel::run_load(*options);
  });
}

void add_demo(CLI::App& app, int& exit_code) {
  auto* verb =
      app.add_subcommand("demo", "simulated GPUs, the balancer and traffic, in one command");
  auto options = std::make_shared<evenkeel::DemoOptions>();
  verb->add_option("--scenario", options->scenario,
                   "fleet: unequal servers, until an interrupt; blast: traffic jumps, spares come")
      ->check(CLI::IsMember(std::vector<std::string>(std::begin(evenkeel::scenario_words),
                                                     std::end(evenkeel::scenario_words))))
      ->capture_default_str();
  verb->add_option("--seconds", options->seconds, "end by itself after so long");
  verb->add_option("--backends", options->backends, "simulated GPUs")->capture_default_str();
  verb->add_option("--picker", options->picker, "who chooses")->capture_default_str();
  verb->add_option("--rate", options->rate, "requests per second; default: what suits the backends")
      ->check(CLI::PositiveNumber);
  verb->add_option("--seed", options->seed, "of what is drawn at random");
  verb->callback([options, &exit_code] { exit_code = evenkeel::run_demo(*options); });
}

void add_ctl(CLI::App& app, int& exit_code) {
  using evenkeel::CtlVerb;
  auto* ctl = app.add_subcommand("ctl", "ask and change a daemon that runs");
  ctl->require_subcommand(1);
  ctl->footer(
      "Options may stand before or after what is to be done.\n"
      "Exit codes: 0 done, 1 refused, 2 usage, 5 the daemon cannot be reached.");
  auto options = std::make_shared<evenkeel::CtlOptions>();
  ctl->add_option("--admin", options->admin, "the daemon's admin listener")->capture_default_str();
  ctl->add_option("--token-file", options->token_file,
                  "file with the admin token: to change something from another machine");
  ctl->add_flag("--json", options->json, "the daemon's own words");
  const auto add = [&](const char* name, const char* what, CtlVerb verb) {
    auto* added = ctl->add_subcommand(name, what)->fallthrough();
    added->callback([options, verb, &exit_code] {
      options->verb = verb;
      exit_code = evenkeel::run_ctl(*options);
    });
    return added;
  };
  const auto add_for_backend = [&](const char* name, const char* what, CtlVerb verb) {
    auto* added = add(name, what, verb);
    added->add_option("backend", options->backend, "its id, such as gpu1:8000")->required();
    added->add_option("--pool", options->pool, "needed where several pools have it");
    return added;
  };
  add("status", "what runs, and each pool", CtlVerb::status);
  add("backends", "state and load of every backend", CtlVerb::backends);
  add_for_backend("drain", "no new requests for a backend", CtlVerb::drain)
      ->add_flag("--wait", options->wait, "until nothing is in flight there");
  add_for_backend("undrain", "requests for it again", CtlVerb::undrain);
  add_for_backend("weight", "another weight than the file's, until the file says another",
                  CtlVerb::weight)
      ->add_option("weight", options->weight, "1 to 1000")
      ->required()
      ->check(CLI::Range(1, 1000));
  add("reload", "read the file again; what is wrong with it is told", CtlVerb::reload)
      ->add_flag("--wait", options->wait, "however long it takes; otherwise 10 s");
}

void add_top(CLI::App& app, int& exit_code) {
  auto* verb = app.add_subcommand("top", "what a daemon and its backends are doing");
  auto options = std::make_shared<evenkeel::TopOptions>();
  verb->add_flag("-1,--once", options->once, "print once and leave");
  verb->add_flag("--json", options->json, "the daemon's own words, a line per look");
  verb->add_option("--admin", options->admin, "the daemon's admin listener")->capture_default_str();
  verb->footer("On a terminal it keeps up until you press q.");
  verb->callback([options, &exit_code] { exit_code = evenkeel::run_top(*options); });
}

bool has_verb(const CLI::App& app, const std::string& name) {
  const auto verbs = app.get_subcommands([](const CLI::App*) { return true; });
  return std::any_of(verbs.begin(), verbs.end(),
                     [&](const CLI::App* verb) { return verb->get_name() == name; });
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"evenkeel: a load balancer for AI inference"};
  app.require_subcommand(1);
  app.set_version_flag("--version", "evenkeel " EVENKEEL_VERSION);
  Arguments arguments;
  int exit_code = 0;

  auto* run = app.add_subcommand("run", "serve (the default verb)");
  add_config_option(*run, arguments);
  run->callback(
      [&] { exit_code = evenkeel::run_daemon({arguments.config_file, EVENKEEL_VERSION}); });

  auto* check = app.add_subcommand("check", "report every mistake in a file");
  add_config_option(*check, arguments);
  check->add_flag("--json", arguments.json, "as a JSON list");
  check->add_flag("--offline", arguments.offline, "look no host names up");
  check->callback([&] {
    evenkeel::Environment environment = evenkeel::process_environment();
    if (arguments.offline) environment.resolve_error = nullptr;
    exit_code = print(evenkeel::check_command(arguments.config_file, arguments.json, environment));
  });

  auto* config = app.add_subcommand("config", "print a file's meaning, its schema, its reference");
  config->require_subcommand(1);
  auto* config_print = config->add_subcommand("print", "the effective file");
  add_config_option(*config_print, arguments);
  config_print->add_flag("--defaults", arguments.defaults, "with every key that has a default");
  config_print->callback([&] {
    exit_code = print(evenkeel::print_command(arguments.config_file, arguments.defaults,
                                              evenkeel::process_environment()));
  });
  config->add_subcommand("schema", "JSON Schema of the file")->callback([&] {
    exit_code = print(evenkeel::schema_command());
  });
  config->add_subcommand("reference", "every key, as Markdown")->callback([&] {
    exit_code = print(evenkeel::reference_command());
  });

  add_quick(app, exit_code);
  add_sim(app, exit_code);
  add_load(app, exit_code);
  add_demo(app, exit_code);
  add_ctl(app, exit_code);
  add_top(app, exit_code);

  auto* version = app.add_subcommand("version", "print the version");
  version->add_flag("--json", arguments.json, "as JSON");
  version->callback([&] { exit_code = print_version(arguments.json); });

  // `evenkeel -c FILE` is `evenkeel run -c FILE`.
  std::vector<std::string> words(argv + 1, argv + argc);
  const std::string first = words.empty() ? "-c" : words.front();
  const bool is_meta_option = first == "-h" || first == "--help" || first == "--version";
  if (words.empty() || (first.starts_with('-') && !is_meta_option)) {
    words.insert(words.begin(), "run");
  } else if (!is_meta_option && !has_verb(app, first)) {
    std::fprintf(stderr, "evenkeel: there is no verb '%s'; see evenkeel --help\n", first.c_str());
    return exit_usage;
  }
  std::reverse(words.begin(), words.end());  // as CLI11 wants them
  try {
    app.parse(words);
  } catch (const CLI::ParseError& problem) {
    const int code = app.exit(problem);
    return code == 0 ? 0 : exit_usage;
  }
  return exit_code;
}
