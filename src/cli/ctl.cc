#include "evenkeel/cli/ctl.h"

#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <memory>
#include <string_view>
#include <thread>
#include <utility>

#include "cli/admin_client.h"
#include "cli/admin_text.h"
#include "cli/text_table.h"
#include "evenkeel/inference/json_value.h"

namespace evenkeel {
namespace {

constexpr int exit_done = 0;
constexpr int exit_refused = 1;
constexpr int exit_usage = 2;
constexpr int exit_unreachable = 5;
constexpr Duration request_timeout = std::chrono::seconds(10);
constexpr Duration reload_wait_timeout = std::chrono::hours(1);
constexpr Duration drain_poll_interval = std::chrono::milliseconds(250);

/// What a server says is shown as text, whatever it holds.
void print_error(std::string_view what) {
  fmt::print(stderr, "evenkeel ctl: {}\n", printable(what));
}

void print_lines(const Lines& lines) {
  for (const std::string& line : lines) fmt::print("{}\n", line);
}

/// What came of a question: a document, or the exit code with which the verb ends.
struct ApiResult {
  int exit_code = exit_done;
  std::string text;
  JsonValue document;

  bool ok() const { return exit_code == exit_done; }
};

class Ctl {
 public:
  Ctl(const CtlOptions& options, AdminClient& client) : options_(options), client_(client) {}

  int run();

 private:
  int status();
  int backends();
  int drain();
  int post_action(std::string_view action, std::string body = {});
  int reload();
  std::string backend_path(std::string_view action) const;
  ApiResult get(std::string_view what);
  ApiResult check_response(Result<Fetched> answer) const;
  void report_refusal(const ApiResult& result, int status) const;

  const CtlOptions& options_;
  AdminClient& client_;
};

int Ctl::run() {
  switch (options_.verb) {
    case CtlVerb::status: return status();
    case CtlVerb::backends: return backends();
    case CtlVerb::drain: return drain();
    case CtlVerb::undrain: return post_action("undrain");
    case CtlVerb::weight:
      return post_action("weight", fmt::format("{{\"weight\":{}}}", options_.weight));
    case CtlVerb::reload: return reload();
  }
  return exit_usage;
}

int Ctl::status() {
  const ApiResult status = get("status");
  if (!status.ok()) return status.exit_code;
  if (options_.json) {
    fmt::print("{}", status.text);
    return exit_done;
  }
  const ApiResult pools = get("pools");
  if (!pools.ok()) return pools.exit_code;
  print_lines(status_text(status.document, pools.document));
  return exit_done;
}

int Ctl::backends() {
  const ApiResult result = get("backends");
  if (!result.ok()) return result.exit_code;
  if (options_.json) {
    fmt::print("{}", result.text);
    return exit_done;
  }
  const auto since_epoch = std::chrono::system_clock::now().time_since_epoch();
  print_lines(backends_text(result.document, std::chrono::duration<double>(since_epoch).count()));
  return exit_done;
}

int Ctl::drain() {
  if (!options_.wait) return post_action("drain");
  while (true) {
    // Asked again each time: it answers with the backend, and changes nothing more.
    const ApiResult result =
        check_response(client_.post(backend_path("drain"), {}, request_timeout));
    if (!result.ok()) return result.exit_code;
    const double in_flight = result.document["in_flight"].number().value_or(0);
    if (in_flight == 0) return post_action("drain");
    std::this_thread::sleep_for(drain_poll_interval);
  }
}

int Ctl::post_action(std::string_view action, std::string body) {
  const ApiResult result =
      check_response(client_.post(backend_path(action), std::move(body), request_timeout));
  if (!result.ok()) return result.exit_code;
  if (options_.json) {
    fmt::print("{}", result.text);
    return exit_done;
  }
  const JsonValue& backend = result.document;
  fmt::print("{} of pool {}: {}, weight {}, {} in flight\n", printable(backend["id"].text()),
             printable(backend["pool"].text()), printable(backend["state"].text()),
             backend["weight"].number().value_or(0), backend["in_flight"].number().value_or(0));
  return exit_done;
}

int Ctl::reload() {
  const Duration time = options_.wait ? reload_wait_timeout : request_timeout;
  const ApiResult result = check_response(client_.post("/api/v1/reload", {}, time));
  if (options_.json && !result.text.empty()) fmt::print("{}", result.text);
  if (!result.ok() || options_.json) return result.exit_code;
  const JsonValue& config = result.document["config"];
  fmt::print("{} ({}) is what runs now\n", printable(config["file"].text()),
             printable(config["hash"].text()));
  return exit_done;
}

std::string Ctl::backend_path(std::string_view action) const {
  std::string path =
      fmt::format("/api/v1/backends/{}/{}", percent_encoded(options_.backend), action);
  if (!options_.pool.empty()) path += "?pool=" + percent_encoded(options_.pool);
  return path;
}

ApiResult Ctl::get(std::string_view what) {
  return check_response(client_.get(fmt::format("/api/v1/{}", what), request_timeout));
}

/// Complains where there is reason to.
ApiResult Ctl::check_response(Result<Fetched> answer) const {
  if (!answer) {
    print_error(fmt::format("no answer from {}: {}", client_.address(), answer.error().detail));
    return {.exit_code = exit_unreachable};
  }
  ApiResult result{.text = std::move(answer->body)};
  auto document = parse_json(result.text);
  if (!document) {
    print_error(fmt::format("{} answers with status {} and no JSON: no evenkeel's admin listener?",
                            client_.address(), answer->status));
    return {.exit_code = exit_unreachable};
  }
  result.document = std::move(*document);
  if (answer->status != 200) {
    result.exit_code = exit_refused;
    report_refusal(result, answer->status);
  }
  return result;
}

void Ctl::report_refusal(const ApiResult& result, int status) const {
  if (result.document.is_array()) {
    if (options_.json) return;
    print_error("the file has mistakes; what ran before runs on");
    for (const std::string& line : problems_text(result.document)) {
      fmt::print(stderr, "{}\n", line);
    }
    return;
  }
  const std::string& error = result.document["error"].text();
  const std::string_view cure = status == 409   ? " (--pool NAME)"
                                : status == 401 ? " (--token-file FILE)"
                                                : "";
  print_error(fmt::format("{}{}", error.empty() ? fmt::format("status {}", status) : error, cure));
}

}  // namespace

int run_ctl(const CtlOptions& options) {
  auto client = AdminClient::open({.address = options.admin, .token_file = options.token_file});
  if (!client) {
    print_error(client.error().detail);
    return client.error().fault == Fault::bad_request ? exit_usage : exit_unreachable;
  }
  return Ctl(options, **client).run();
}

}  // namespace evenkeel
