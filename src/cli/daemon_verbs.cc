// quick, ctl, top.
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/option_values.h"
#include "cli/verbs.h"
#include "evenkeel/base/decimal.h"
#include "evenkeel/base/log.h"
#include "evenkeel/cli/quick.h"
#include "evenkeel/config/config.h"
#include "evenkeel/config/spelling.h"
#include "evenkeel/server/daemon.h"

namespace evenkeel {
namespace {

/// Reads LEVEL or SUBSYSTEM=LEVEL.
LogLevelOption read_log_level(const std::string& word) {
  LogLevelOption read{.subsystem = {}, .level = word};
  const std::size_t equals = word.find('=');
  if (equals != word.npos) read = {word.substr(0, equals), word.substr(equals + 1)};
  const auto refuse = [](const UnknownWord& unknown) {
    throw CLI::ValidationError("level", to_string(unknown));
  };
  if (!log::level_of(read.level)) refuse(unknown_word("level", read.level, log::level_names()));
  if (equals != word.npos && !log::subsystem_of(read.subsystem))
    refuse(unknown_word("subsystem", read.subsystem, log::subsystem_names()));
  return read;
}

constexpr const char* quick_help =
    R"(Detects the engine and the models of each server, prints a configuration file for them on stdout
(everything else goes to stderr), and serves it:
  evenkeel quick http://gpu1:8000 http://gpu2:8000 > evenkeel.yaml
Servers with the same models form one pool. Otherwise requests are routed by model: each model goes to
a pool of all servers that have it. A server that does not answer is used nevertheless, since a server
that loads its model does not answer either. When no server answers, nothing is served.
)";

constexpr const char* ctl_help =
    R"(Options may also stand before the command.
Exit codes: 0 done, 1 refused, 2 usage, 3 the timeout passed with requests in flight, 5 the daemon
does not answer.)";

template <class Options>
void add_target_options(CLI::App& verb, Options& options) {
  verb.add_option("--admin", options.target.address,
                  "Address of the daemon's admin listener; https://HOST:PORT to use TLS")
      ->type_name("HOST:PORT")
      ->default_str("127.0.0.1:9901");
  add_tls_options(verb, options.target);
  verb.add_option("-c,--config", options.config_file,
                  "The daemon's configuration file, to find its admin listener and token")
      ->type_name("FILE");
  verb.add_option("--token-file", options.target.token_file,
                  "File with the admin token, where the daemon wants it (admin.token_for)")
      ->type_name("FILE");
}

/// Adds the options that `ctl` and all of its commands take.
void add_admin_options(CLI::App& verb, CtlOptions& options) {
  add_target_options(verb, options);
  verb.add_flag("--json", options.json, "Print the daemon's JSON documents");
}

/// The last of the words is the weight: CLI11 gives a list of words all that follow.
void take_weight(CtlOptions& options) {
  const std::string text = options.backends.empty() ? "" : options.backends.back();
  const auto weight = parse_number<std::uint32_t>(text);
  if (!weight || *weight < 1 || *weight > 1000)
    throw CLI::ValidationError("weight", "'" + text + "' is no whole number from 1 to 1000");
  options.weight = *weight;
  options.backends.pop_back();
}

/// Adds the commands of `ctl`.
class CtlCommands {
 public:
  using Run = std::function<int(const CtlOptions&)>;

  CtlCommands(CLI::App& ctl, std::shared_ptr<CtlOptions> options, Invocation& invocation, Run run)
      : ctl_(ctl), options_(std::move(options)), invocation_(invocation), run_(std::move(run)) {}

  CLI::App* add(const char* name, const char* help, CtlVerb verb) {
    auto* command = ctl_.add_subcommand(name, help)->group("Commands");
    add_admin_options(*command, *options_);
    command->footer(ctl_help);
    command->callback([options = options_, verb, run = run_, &invocation = invocation_] {
      options->verb = verb;
      invocation.exit_code = run(*options);
    });
    return command;
  }

  CLI::App* add_for_backends(const char* name, const char* help, CtlVerb verb) {
    auto* command = add(name, help, verb);
    const bool weighs = verb == CtlVerb::weight;
    command->add_option(
        weighs ? "backend... weight" : "backend", options_->backends,
        weighs ? "Ids, such as gpu1:8000, then the weight, 1 to 1000" : "Ids, such as gpu1:8000");
    command
        ->add_option("--pool", options_->pool,
                     "Their pool, where several pools have them; without ids: all of its backends")
        ->type_name("NAME");
    command->parse_complete_callback([options = options_, weighs] {
      if (weighs) take_weight(*options);
      if (options->backends.empty() && options->pool.empty())
        throw CLI::RequiredError("a backend or --pool");
    });
    return command;
  }

 private:
  CLI::App& ctl_;
  std::shared_ptr<CtlOptions> options_;
  Invocation& invocation_;
  Run run_;
};

void add_request_filters(CLI::App& command, const std::shared_ptr<CtlOptions>& options) {
  RequestFilter& filter = options->requests;
  command
      .add_option_function<std::string>(
          "--slow",
          [&filter](const std::string& time) {
            filter.slowest_first = true;
            if (time.empty()) return;
            const auto min = parse_duration(time);
            if (!min) throw CLI::ValidationError("--slow", "'" + time + "' is no time such as 2s");
            filter.min_duration = *min;
          },
          "The slowest first; with a time such as 2s only those that took as long")
      ->expected(0, 1)
      ->type_name("TIME");
  command.add_flag("--errors", filter.errors, "Only those that failed");
  command.add_option("--tenant", filter.tenant, "Only those of a tenant")->type_name("NAME");
  command.add_option("--model", filter.model, "Only those to a model")->type_name("NAME");
  command.add_option("--pool", filter.pool, "Only those of a pool")->type_name("NAME");
  command.add_option("--backend", filter.backend, "Only those that a backend got last")
      ->type_name("ADDRESS");
}

}  // namespace

void add_quick_verb(CLI::App& app, Invocation& invocation) {
  auto* verb = app.add_subcommand("quick", "Serve the given servers, without a file");
  verb->footer(quick_help);
  auto options = std::make_shared<QuickOptions>();
  options->serve = [&invocation](const std::string& config_text) {
    return run_daemon_with(config_text, invocation.version);
  };
  verb->add_option("url", options->urls, "http://host:port of each server")->required();
  verb->add_option("--listen", options->listen, "Address for clients")->capture_default_str();
  verb->add_option("--admin", options->admin, "Address of the admin listener")
      ->capture_default_str();
  verb->add_option("--picker", options->picker, "How a backend is chosen")
      ->check(one_of(picker_names()))
      ->capture_default_str();
  verb->callback([options, &invocation] { invocation.exit_code = run_quick(*options); });
}

void add_ctl_verb(CLI::App& app, Invocation& invocation,
                  std::function<int(const CtlOptions&)> run) {
  auto* ctl = app.add_subcommand("ctl", "Query and change a running daemon");
  ctl->require_subcommand(1);
  ctl->footer(ctl_help);
  auto options = std::make_shared<CtlOptions>();
  add_admin_options(*ctl, *options);
  CtlCommands commands(*ctl, options, invocation, std::move(run));
  commands.add("status", "Show the daemon and its pools", CtlVerb::status);
  commands.add("backends", "Show state and load of every backend", CtlVerb::backends);
  add_request_filters(
      *commands.add("requests", "Show the last requests to models, with their tokens and times",
                    CtlVerb::requests),
      options);
  auto* sessions = commands.add("sessions", "Show where sessions are kept, and their last moves",
                                CtlVerb::sessions);
  sessions->add_option("--pool", options->pool, "Only those of a pool")->type_name("NAME");
  sessions->add_option("--limit", options->sessions, "How many of each pool, those used last first")
      ->check(CLI::Range(0, 1000))
      ->capture_default_str();
  commands.add("tenants", "Show what each tenant uses, beside its weight and priority",
               CtlVerb::tenants);
  commands.add("explain", "Show why a request went where it went, or failed", CtlVerb::explain)
      ->add_option("request", options->request, "Its x-request-id")
      ->required();
  auto* drain = commands.add_for_backends("drain", "Send backends no new requests", CtlVerb::drain);
  add_duration_option(*drain, "--for", "Undrain them after this time; default: they stay drained",
                      [options](Duration time) {
                        if (time.count() == 0)
                          throw CLI::ValidationError("--for", "must be more than 0");
                        options->drain_for = time;
                      });
  auto* wait = drain->add_flag("--wait", options->wait, "Wait until they have none in flight");
  add_duration_option(*drain, "--timeout", "With --wait: give up after this time (exit code 3)",
                      [options](Duration timeout) { options->timeout = timeout; })
      ->needs(wait);
  commands.add_for_backends("undrain", "Send them new requests again", CtlVerb::undrain);
  commands.add_for_backends("weight", "Give backends a weight, until the file gives another",
                            CtlVerb::weight);
  auto* reload =
      commands.add("reload", "Reload the file, or say why it is refused", CtlVerb::reload);
  reload->add_flag("--wait", options->wait, "Wait as long as it takes, instead of 10 s");
  commands.add("canaries", "Show the canaries of splits, and how they do", CtlVerb::canaries)
      ->add_option("--restart", options->restart, "Begin the trial of this route's canary again")
      ->type_name("ROUTE");
  commands.add("purge", "Drop the answers that pools keep", CtlVerb::purge)
      ->add_option("--pool", options->pool, "Only those of a pool")
      ->type_name("NAME");
  commands.add("upgrade", "Start the installed binary, which takes over", CtlVerb::upgrade);
  commands
      .add("log", "Show the levels of the daemon's log, or set them until the next reload",
           CtlVerb::log)
      ->add_option_function<std::vector<std::string>>(
          "level",
          [options](const std::vector<std::string>& words) {
            for (const std::string& word : words) options->levels.push_back(read_log_level(word));
          },
          "debug, info, warning or error: the least important lines that are written; "
          "SUBSYSTEM=LEVEL: of one subsystem, such as health=debug");
}

void add_top_verb(CLI::App& app, Invocation& invocation,
                  std::function<int(const TopOptions&)> run) {
  auto* verb = app.add_subcommand("top", "Watch a running daemon and its backends");
  auto options = std::make_shared<TopOptions>();
  verb->add_flag("-1,--once", options->once, "Print one snapshot and exit");
  verb->add_flag("--json", options->json, "Print each snapshot as one line of JSON");
  add_target_options(*verb, *options);
  verb->add_option("--sort", options->sort, "Order of the backends; `state`: problems first")
      ->check(one_of(top_orders()))
      ->capture_default_str();
  verb->footer(
      "On a terminal it refreshes every second: s changes the order, q quits. A narrow terminal\n"
      "drops columns; the state of each backend and the reason for it always remain.\n"
      "Exit codes: 0 done, 1 refused, 2 usage, 5 the daemon does not answer.");
  verb->callback(
      [options, run = std::move(run), &invocation] { invocation.exit_code = run(*options); });
}

}  // namespace evenkeel
