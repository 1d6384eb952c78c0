#include "evenkeel/cli/ctl.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <variant>

#include "cli/admin_target.h"
#include "cli/admin_text.h"
#include "cli/canaries_text.h"
#include "cli/check.h"
#include "cli/decision_text.h"
#include "cli/requests_text.h"
#include "cli/sessions_text.h"
#include "cli/tenants_text.h"
#include "cli/terminal.h"
#include "evenkeel/admin/client.h"
#include "evenkeel/base/exit_codes.h"
#include "evenkeel/base/path.h"
#include "evenkeel/base/text_table.h"
#include "evenkeel/config/spelling.h"
#include "evenkeel/json/value.h"

namespace evenkeel {
namespace {

constexpr Duration request_timeout = std::chrono::seconds(10);
constexpr Duration reload_wait_timeout = std::chrono::hours(1);
/// Longer than the daemon waits for the other process.
constexpr Duration upgrade_timeout = std::chrono::seconds(80);
constexpr Duration drain_poll_interval = std::chrono::milliseconds(250);
constexpr Duration upgrade_poll_interval = std::chrono::milliseconds(250);

/// Replaces control characters: parts of the text come from servers.
void print_error(std::string_view what) {
  fmt::print(stderr, "evenkeel ctl: {}\n", printable(what));
}

void print_lines(const Lines& lines) {
  for (const std::string& line : lines) fmt::print("{}\n", line);
}

/// True if `known` lacks the name; prints it then.
bool is_unknown(std::string_view what, const std::string& name,
                const std::vector<std::string>& known) {
  if (std::ranges::find(known, name) != known.end()) return false;
  const std::vector<std::string_view> views(known.begin(), known.end());
  std::vector<std::string_view> near = near_names(name, views);
  const auto [first, last] = std::ranges::unique(near);
  near.erase(first, last);
  print_error(fmt::format(
      "there is no {} '{}'{}", what, name,
      near.empty() ? "" : fmt::format("; did you mean '{}'?", fmt::join(near, "', '"))));
  return true;
}

/// The result of a request: a document, or the exit code with which the verb ends.
struct ApiResult {
  int exit_code = exit_done;
  std::string text;
  JsonValue document;

  bool ok() const { return exit_code == exit_done; }
};

/// What a drain waits for; empty: nothing. Requests of the process that an upgrade has replaced
/// count too: their server must not be stopped either.
std::string requests_left(const JsonValue& backend) {
  const double here = backend["in_flight"].number().value_or(0);
  constexpr std::string_view name = "replaced_in_flight";
  const bool unknown = std::ranges::any_of(backend.members(), [&](const auto& member) {
    return member.first == name && member.second.is_null();
  });
  if (unknown) return "requests in flight, maybe: the process before the upgrade has not reported";
  const double before = backend[name].number().value_or(0);
  if (here + before == 0) return "";
  if (before == 0) return fmt::format("{} requests in flight", here);
  return fmt::format("{} requests in flight, and {} of the process before the upgrade", here,
                     before);
}

/// Null if the list has no such backend.
const JsonValue* find_backend(const JsonValue& backends, std::string_view pool,
                              std::string_view id) {
  for (const JsonValue& backend : backends.items()) {
    if (backend["pool"].text() == pool && backend["id"].text() == id) return &backend;
  }
  return nullptr;
}

/// True if the daemon that answers was started with this file.
bool runs_file(AdminClient& client, const std::string& file) {
  const auto answer = client.get("/api/v1/status", request_timeout);
  if (!answer || answer->status != 200) return false;
  const auto status = parse_json(answer->body);
  std::error_code unknown;
  return status && std::filesystem::equivalent((*status)["config"]["file"].text(), file, unknown) &&
         !unknown;
}

class Ctl {
 public:
  Ctl(const CtlOptions& options, AdminClient& client) : options_(options), client_(client) {}

  int run();

 private:
  int show(const std::string& what, const std::function<Lines(const JsonValue&)>& lines_of);
  int status();
  int backends();
  int requests();
  int sessions();
  int tenants();
  int canaries();
  int check_names(const RequestFilter& filter);
  int explain();
  int drain();
  int wait_until_idle(const JsonValue& drained, std::optional<Instant> deadline);
  int post_actions(std::string_view action, const std::string& body = {});
  std::optional<std::vector<std::string>> backends_of_pool();
  int print_backend(const JsonValue& backend) const;
  int reload();
  int upgrade();
  int purge();
  int log_levels();
  int set_log_levels();
  std::string backend_path(const std::string& backend, std::string_view action) const;
  ApiResult get(std::string_view what);
  ApiResult post(const std::string& path, const std::string& body, Duration time);
  ApiResult check_response(Result<AdminResponse> answer) const;
  void report_refusal(const ApiResult& result, int status) const;

  const CtlOptions& options_;
  AdminClient& client_;
};

int Ctl::run() {
  switch (options_.verb) {
    case CtlVerb::status: return status();
    case CtlVerb::backends: return backends();
    case CtlVerb::requests: return requests();
    case CtlVerb::sessions: return sessions();
    case CtlVerb::tenants: return tenants();
    case CtlVerb::canaries: return canaries();
    case CtlVerb::explain: return explain();
    case CtlVerb::drain: return drain();
    case CtlVerb::undrain: return post_actions("undrain");
    case CtlVerb::weight:
      return post_actions("weight", fmt::format("{{\"weight\":{}}}", options_.weight));
    case CtlVerb::reload: return reload();
    case CtlVerb::upgrade: return upgrade();
    case CtlVerb::purge: return purge();
    case CtlVerb::log: return options_.levels.empty() ? log_levels() : set_log_levels();
  }
  return exit_usage;
}

/// Prints a document as it is, or as lines of text.
int Ctl::show(const std::string& what, const std::function<Lines(const JsonValue&)>& lines_of) {
  const ApiResult result = get(what);
  if (!result.ok()) return result.exit_code;
  if (options_.json) {
    fmt::print("{}", result.text);
  } else {
    print_lines(lines_of(result.document));
  }
  return exit_done;
}

int Ctl::status() {
  ApiResult pools;
  if (!options_.json) pools = get("pools");
  if (!pools.ok()) return pools.exit_code;
  return show("status", [&](const JsonValue& status) {
    return status_text(status, pools.document, terminal_width());
  });
}

int Ctl::backends() {
  return show("backends", [](const JsonValue& document) {
    return backends_text(document, {.now = unix_seconds(), .width = terminal_width()});
  });
}

int Ctl::requests() {
  const ApiResult result = get("requests/recent");
  if (!result.ok()) return result.exit_code;
  const JsonValue shown = filtered_requests(result.document, options_.requests);
  if (shown.items().empty() && !options_.requests.empty()) {
    const int exit_code = check_names(options_.requests);
    if (exit_code != exit_done) return exit_code;
  }
  if (options_.json) {
    fmt::print("{}\n", json_text(shown));
    return exit_done;
  }
  const std::size_t all = result.document.items().size();
  if (shown.items().empty() && all > 0) {
    fmt::print("no request matches, of the last {}\n", all);
    return exit_done;
  }
  print_lines(requests_text(shown, terminal_width()));
  return exit_done;
}

int Ctl::sessions() {
  std::string what = fmt::format("sessions?limit={}", options_.sessions);
  if (!options_.pool.empty()) what += "&pool=" + percent_encoded(options_.pool);
  return show(what, [](const JsonValue& pools) { return sessions_text(pools, terminal_width()); });
}

int Ctl::tenants() {
  return show("tenants",
              [](const JsonValue& tenants) { return tenants_text(tenants, terminal_width()); });
}

int Ctl::canaries() {
  if (options_.restart.empty()) {
    return show("canaries", [](const JsonValue& canaries) {
      return canaries_text(canaries, terminal_width());
    });
  }
  const std::string path = "/api/v1/canaries/restart?route=" + percent_encoded(options_.restart);
  const ApiResult result = post(path, {}, request_timeout);
  if (options_.json && !result.text.empty()) fmt::print("{}", result.text);
  if (!result.ok() || options_.json) return result.exit_code;
  fmt::print("{} of route {} is on trial again\n", printable(result.document["target"].text()),
             printable(result.document["route"].text()));
  return exit_done;
}

/// Says which pool or backend there is none of.
int Ctl::check_names(const RequestFilter& filter) {
  if (filter.pool.empty() && filter.backend.empty()) return exit_done;
  const ApiResult result = get("backends");
  if (!result.ok()) return result.exit_code;
  std::vector<std::string> pools;
  std::vector<std::string> backends;
  for (const JsonValue& backend : result.document.items()) {
    pools.push_back(backend["pool"].text());
    if (!filter.pool.empty() && pools.back() != filter.pool) continue;
    backends.push_back(backend["id"].text());
    backends.push_back(backend["address"].text());
  }
  if (!filter.pool.empty() && is_unknown("pool", filter.pool, pools)) return exit_failed;
  if (!filter.backend.empty() && is_unknown("backend", filter.backend, backends))
    return exit_failed;
  return exit_done;
}

int Ctl::explain() {
  return show("decisions/" + percent_encoded(options_.request),
              [](const JsonValue& document) { return decision_text(document, terminal_width()); });
}

int Ctl::drain() {
  if (!options_.drain_for) return post_actions("drain");
  return post_actions("drain",
                      fmt::format("{{\"for_seconds\":{}}}", seconds_of(*options_.drain_for)));
}

/// Polls until the drained backend has no requests in flight.
int Ctl::wait_until_idle(const JsonValue& drained, std::optional<Instant> deadline) {
  const std::string id = drained["id"].text();
  const std::string pool = drained["pool"].text();
  while (true) {
    const ApiResult result = get("backends");
    if (!result.ok()) return result.exit_code;
    const JsonValue* const backend = find_backend(result.document, pool, id);
    if (backend == nullptr) {
      print_error(fmt::format("pool {} no longer has the backend {}", pool, id));
      return exit_failed;
    }
    if ((*backend)["state"].text() != "draining") {
      print_error(fmt::format("{} of pool {} is no longer draining, its state is {}", id, pool,
                              (*backend)["state"].text()));
      return exit_failed;
    }
    const std::string left = requests_left(*backend);
    if (left.empty()) return print_backend(*backend);
    if (deadline && Clock::now() >= *deadline) {
      print_error(fmt::format("{} of pool {} still has {}; it keeps draining", id, pool, left));
      return exit_timeout;
    }
    std::this_thread::sleep_for(drain_poll_interval);
  }
}

/// Posts the action to each backend, also after one that was refused. Returns the first exit code
/// that is not 0.
int Ctl::post_actions(std::string_view action, const std::string& body) {
  auto backends = options_.backends;
  if (backends.empty()) {
    auto all = backends_of_pool();
    if (!all) return exit_failed;
    backends = std::move(*all);
  }
  std::optional<Instant> deadline;
  if (options_.timeout) deadline = Clock::now() + *options_.timeout;
  int exit_code = exit_done;
  std::vector<JsonValue> changed;
  for (const std::string& backend : backends) {
    ApiResult result = post(backend_path(backend, action), body, request_timeout);
    if (exit_code == exit_done) exit_code = result.exit_code;
    if (result.ok()) changed.push_back(std::move(result.document));
  }
  for (const JsonValue& backend : changed) {
    const int done = options_.wait ? wait_until_idle(backend, deadline) : print_backend(backend);
    if (exit_code == exit_done) exit_code = done;
  }
  return exit_code;
}

/// The ids of all backends of the pool; nothing: it has been printed why there are none.
std::optional<std::vector<std::string>> Ctl::backends_of_pool() {
  const ApiResult result = get("backends");
  if (!result.ok()) return std::nullopt;
  std::vector<std::string> ids;
  std::vector<std::string> pools;
  for (const JsonValue& backend : result.document.items()) {
    pools.push_back(backend["pool"].text());
    if (pools.back() == options_.pool) ids.push_back(backend["id"].text());
  }
  if (!ids.empty()) return ids;
  is_unknown("pool", options_.pool, pools);
  return std::nullopt;
}

int Ctl::print_backend(const JsonValue& backend) const {
  if (options_.json) {
    fmt::print("{}\n", json_text(backend));
    return exit_done;
  }
  fmt::print("{} of pool {}: {}, weight {}, {} in flight\n", printable(backend["id"].text()),
             printable(backend["pool"].text()), printable(backend["state"].text()),
             backend["weight"].number().value_or(0), backend["in_flight"].number().value_or(0));
  return exit_done;
}

int Ctl::reload() {
  const Duration time = options_.wait ? reload_wait_timeout : request_timeout;
  const ApiResult result = post("/api/v1/reload", {}, time);
  if (options_.json && !result.text.empty()) fmt::print("{}", result.text);
  if (!result.ok() || options_.json) return result.exit_code;
  const JsonValue& config = result.document["config"];
  const auto successor = result.document["taken_over_by"].number();
  if (successor) {
    fmt::print("reloaded {}: process {} has taken over\n", printable(config["file"].text()),
               *successor);
    return exit_done;
  }
  fmt::print("reloaded {} ({})\n", printable(config["file"].text()),
             printable(config["hash"].text()));
  return exit_done;
}

int Ctl::log_levels() {
  return show("log", [](const JsonValue& document) {
    TextTable table({{"SUBSYSTEM"}, {"LEVEL"}});
    for (const auto& [name, level] : document["levels"].members()) table.add({name, level.text()});
    return table.lines();
  });
}

int Ctl::set_log_levels() {
  JsonValue body;
  JsonValue own;
  for (const auto& [subsystem, level] : options_.levels) {
    if (subsystem.empty()) {
      body.add("level", level);
    } else {
      own.add(subsystem, level);
    }
  }
  if (!own.is_null()) body.add("levels", std::move(own));
  const ApiResult result =
      check_response(client_.post("/api/v1/log", json_text(body), request_timeout));
  if (!result.ok()) return result.exit_code;
  if (options_.json) {
    fmt::print("{}", result.text);
    return exit_done;
  }
  for (const auto& [subsystem, level] : options_.levels) {
    fmt::print("{} has level {} until the next reload\n", subsystem.empty() ? "the log" : subsystem,
               level);
  }
  return exit_done;
}

int Ctl::upgrade() {
  const ApiResult result = check_response(client_.post("/api/v1/upgrade", {}, upgrade_timeout));
  if (options_.json && !result.text.empty()) fmt::print("{}", result.text);
  if (!result.ok() || options_.json) return result.exit_code;
  fmt::print("upgraded: process {} has taken over\n",
             result.document["taken_over_by"].number().value_or(0));
  return exit_done;
}

int Ctl::purge() {
  std::string path = "/api/v1/cache/purge";
  if (!options_.pool.empty()) path += "?pool=" + percent_encoded(options_.pool);
  const ApiResult result = post(path, {}, request_timeout);
  if (options_.json && !result.text.empty()) fmt::print("{}", result.text);
  if (!result.ok() || options_.json) return result.exit_code;
  fmt::print("{} kept answers dropped\n", result.document["dropped"].number().value_or(0));
  return exit_done;
}

std::string Ctl::backend_path(const std::string& backend, std::string_view action) const {
  std::string path = fmt::format("/api/v1/backends/{}/{}", percent_encoded(backend), action);
  if (!options_.pool.empty()) path += "?pool=" + percent_encoded(options_.pool);
  return path;
}

ApiResult Ctl::get(std::string_view what) {
  return check_response(client_.get(fmt::format("/api/v1/{}", what), request_timeout));
}

/// Posts again while the daemon is being upgraded: the new process accepts changes.
ApiResult Ctl::post(const std::string& path, const std::string& body, Duration time) {
  const Instant deadline = Clock::now() + time;
  while (true) {
    auto answer = client_.post(path, body, deadline - Clock::now());
    const bool again = answer && answer->try_again && answer->status == 503 &&
                       Clock::now() + upgrade_poll_interval < deadline;
    if (!again) return check_response(std::move(answer));
    std::this_thread::sleep_for(upgrade_poll_interval);
  }
}

/// Prints what is wrong with the response, if anything.
ApiResult Ctl::check_response(Result<AdminResponse> answer) const {
  if (!answer) {
    print_error(fmt::format("no answer from {}: {}", client_.address(), answer.error().detail));
    return {.exit_code = exit_unreachable};
  }
  ApiResult result{.text = std::move(answer->body)};
  auto document = parse_json(result.text);
  if (!document) {
    print_error(
        fmt::format("{} answered with status {} and no JSON; it is not the admin listener "
                    "of an evenkeel",
                    client_.address(), answer->status));
    return {.exit_code = exit_unreachable};
  }
  result.document = std::move(*document);
  if (answer->status != 200) {
    result.exit_code = exit_failed;
    report_refusal(result, answer->status);
  }
  return result;
}

void Ctl::report_refusal(const ApiResult& result, int status) const {
  if (result.document.is_array()) {
    if (options_.json) return;
    print_error("reload rejected; the previous configuration stays active");
    for (const std::string& line : problems_text(result.document)) {
      fmt::print(stderr, "{}\n", line);
    }
    return;
  }
  print_error(error_text(result.document, status));
}

}  // namespace

int run_ctl(const CtlOptions& options) {
  const auto found = find_target(options.target, options.config_file);
  if (const auto* refusal = std::get_if<CommandOutput>(&found)) return print_output(*refusal);
  const auto& [target, doubt] = std::get<FoundTarget>(found);
  auto client = AdminClient::open(target);
  if (!doubt.empty() && (!client || !runs_file(**client, options.config_file)))
    return print_output({exit_failed, {}, doubt});
  if (!client) {
    print_error(client.error().detail);
    return client.error().fault == Fault::bad_request ? exit_usage : exit_unreachable;
  }
  return Ctl(options, **client).run();
}

}  // namespace evenkeel
