// sim, load, demo.
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "cli/option_values.h"
#include "cli/verbs.h"
#include "evenkeel/config/config.h"
#include "evenkeel/demo/demo.h"
#include "evenkeel/load/load.h"
#include "evenkeel/sim/presets.h"
#include "evenkeel/sim/sim.h"

namespace evenkeel {
namespace {

/// Options for `infer` and ModelInfer, which run as in Triton's dynamic batcher, and for embeddings
/// that do.
void add_batching_options(CLI::App& verb, const std::shared_ptr<SimOptions>& options) {
  BatchingSpec& batching = options->server.batching;
  verb.add_option("--max-batch", batching.max_batch_size, "infer: items in a batch; 0: unlimited")
      ->capture_default_str();
  verb.add_option("--preferred-batch", batching.preferred_sizes,
                  "infer: batch sizes that do not wait for more items, such as 4,8")
      ->delimiter(',');
  add_duration_option(
      verb, "--max-queue-delay",
      "infer: how long a request waits for others, such as 100us; default: not at all",
      [options](Duration delay) { options->server.batching.max_queue_delay = delay; });
  verb.add_option("--max-queue-size", batching.max_queue_size,
                  "infer: requests that may wait; 0: unlimited")
      ->capture_default_str();
  verb.add_option("--instances", batching.instances, "infer: batches that run at a time")
      ->capture_default_str();
  add_duration_option(
      verb, "--batch-time", "infer: duration of a batch without its items; default: 2ms",
      [options](Duration time) { options->server.batching.batch_seconds = seconds_of(time); });
  add_duration_option(
      verb, "--item-time", "infer: duration that each item adds; default: 500us",
      [options](Duration time) { options->server.batching.item_seconds = seconds_of(time); });
  verb.add_flag(
      "--batch-embeddings", options->server.batches_embeddings,
      "Run /v1/embeddings like infer, with these options; with --max-batch 0 each request "
      "by itself");
}

/// Adds the options for what `load` sends: an open loop by rate or trace, or a closed one by
/// concurrency.
void add_arrival_options(CLI::App& verb, const std::shared_ptr<LoadOptions>& options) {
  auto* rate = verb.add_option("--rate", options->rate, "Requests per second (open loop)")
                   ->check(above_zero());
  auto* clients = verb.add_option("--concurrency", options->concurrency,
                                  "Clients, each with one request "
                                  "at a time (closed loop)")
                      ->check(above_zero());
  auto* trace = verb.add_option("--trace", options->trace, "File with arrival times and lengths")
                    ->type_name("FILE");
  rate->excludes(clients)->excludes(trace);
  clients->excludes(trace);
  verb.add_option("--trace-speed", options->trace_speed, "Divide the trace's times by this")
      ->capture_default_str();
  verb.add_flag("--trace-bursts", options->trace_bursts,
                "Keep requests with the same time stamp together");
  add_duration_option(verb, "--max-seconds", "Use only this much of the trace",
                      [options](Duration time) { options->trace_cut = time; });
  verb.add_option("--max-prompt-tokens", options->max_prompt_tokens,
                  "Cut longer prompts of the trace");
  verb.add_flag("--poisson", options->poisson, "With --rate: exponential intervals");
  add_duration_option(verb, "--duration",
                      "Start no request after this time; default: 10s, without --requests",
                      [options](Duration time) {
                        if (time.count() == 0)
                          throw CLI::ValidationError("--duration", "must be more than 0");
                        options->duration = time;
                      });
  verb.add_option("--requests", options->requests,
                  "Send at most this many requests; default: no limit");
}

void add_adapter_options(CLI::App& verb, const std::shared_ptr<SimOptions>& options) {
  AdaptersSpec& adapters = options->server.adapters;
  verb.add_option("--lora", adapters.names, "vllm: names of LoRA adapters")->delimiter(',');
  verb.add_option("--max-loras", adapters.slots, "vllm: LoRA adapters that stay loaded")
      ->capture_default_str();
  add_duration_option(
      verb, "--lora-load-time", "vllm: time to load another; default: 500ms",
      [options](Duration time) { options->server.adapters.load_seconds = seconds_of(time); });
}

StreamHead stream_head_of(const std::string& when) {
  if (when == "early") return StreamHead::early;
  if (when == "with-first-token") return StreamHead::with_first_token;
  throw CLI::ValidationError("--head", "'" + when + "' is not early or with-first-token");
}

void add_token_option(CLI::App& verb, const char* name, const char* help, TokenRange& range) {
  verb.add_option_function<std::string>(
          name,
          [name, &range](const std::string& text) {
            range = value_or_usage_error(name, parse_token_range(text));
          },
          help)
      ->type_name("N|A..B");
}

}  // namespace

void add_sim_verb(CLI::App& app, Invocation& invocation) {
  auto* verb = app.add_subcommand("sim", "Run simulated inference servers");
  auto options = std::make_shared<SimOptions>();
  verb->add_option("--listen", options->listen,
                   "Address of the first server; the others use the next ports")
      ->capture_default_str();
  verb->add_option("--count", options->count, "Number of servers")->capture_default_str();
  verb->add_option("--engine", options->server.engine, "Engine that they imitate")
      ->check(one_of(simulated_engine_names()))
      ->capture_default_str();
  verb->add_option("--preset", options->server.preset, "GPU and model")
      ->check(one_of(preset_names()))
      ->capture_default_str();
  verb->add_option("--model", options->server.model, "Name of the model; default: the preset's");
  verb->add_option("--speed", options->server.speed, "10 runs ten times faster than real time")
      ->capture_default_str();
  verb->add_option("--seed", options->server.seed, "Seed of random numbers")->capture_default_str();
  verb->add_option("--threads", options->threads, "Event loops")
      ->check(above_zero())
      ->capture_default_str();
  verb->add_option("--control", options->control, "Address to control all servers at")
      ->capture_default_str();
  verb->add_flag("--prompt-tokens-details", options->server.prompt_tokens_details,
                 "Report cached prompt tokens in `usage`");
  verb->add_option_function<std::string>(
          "--head",
          [options](const std::string& when) {
            options->server.stream_head = stream_head_of(when);
          },
          "When the head of a stream is sent: early, with-first-token; default: as the engine does")
      ->type_name("WHEN");
  add_batching_options(*verb, options);
  add_adapter_options(*verb, options);
  verb->callback([options, &invocation] { invocation.exit_code = run_sim(*options); });
}

void add_load_verb(CLI::App& app, Invocation& invocation) {
  auto* verb = app.add_subcommand("load", "Send chat completions and measure them");
  auto options = std::make_shared<LoadOptions>();
  verb->add_option("url", options->url, "http://host[:port][/base]")->required();
  add_arrival_options(*verb, options);
  add_token_option(*verb, "--prompt-tokens", "Length of prompts; default: 128",
                   options->prompt_tokens);
  add_token_option(*verb, "--output-tokens", "Length of outputs; default: 64",
                   options->output_tokens);
  verb->add_flag("--stream", options->stream, "Request server-sent events");
  verb->add_option("--model", options->model, "Model; default: the first that the server lists");
  verb->add_option_function<std::vector<std::string>>(
      "--header",
      [options](const std::vector<std::string>& headers) {
        for (const std::string& header : headers) {
          options->headers.push_back(value_or_usage_error("--header", parse_header_option(header)));
        }
      },
      "'Name: value' to send; may be repeated");
  verb->add_option("--seed", options->seed, "Seed of random numbers")->capture_default_str();
  verb->add_option("--threads", options->threads, "Event loops")->capture_default_str();
  add_duration_option(*verb, "--ttft-slo", "Target of the first token, for the goodput",
                      [options](Duration time) { options->ttft_slo = time; });
  add_duration_option(*verb, "--tpot-slo", "Target of each further token, on average",
                      [options](Duration time) { options->tpot_slo = time; });
  verb->add_option("--log", options->log, "File for a line of JSON per request")->type_name("FILE");
  verb->add_flag("--json", options->json, "Print the report as JSON");
  verb->footer("Exit codes: 0 no request failed, 1 some did, or nothing could be sent, 2 usage.");
  verb->callback([options, &invocation] { invocation.exit_code = run_load(*options); });
}

void add_demo_verb(CLI::App& app, Invocation& invocation) {
  auto* verb = app.add_subcommand("demo", "Run simulated GPUs, the balancer and load together");
  auto options = std::make_shared<DemoOptions>();
  verb->add_option("--scenario", options->scenario,
                   "fleet: servers of unequal speed, until interrupted; blast: traffic jumps and "
                   "standby servers join")
      ->check(one_of({std::begin(scenario_words), std::end(scenario_words)}))
      ->capture_default_str();
  verb->add_option("--seconds", options->seconds, "End after so many seconds");
  verb->add_option("--backends", options->backends, "Simulated GPUs")->capture_default_str();
  verb->add_option("--picker", options->picker, "How a backend is chosen")
      ->check(one_of(picker_names()))
      ->capture_default_str();
  verb->add_option("--rate", options->rate, "Requests per second; default: what suits the backends")
      ->check(above_zero());
  verb->add_option("--seed", options->seed, "Seed of random numbers");
  verb->callback([options, &invocation] { invocation.exit_code = run_demo(*options); });
}

}  // namespace evenkeel
