#include "evenkeel/server/ctl.h"

#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <memory>
#include <string_view>
#include <thread>
#include <utility>

#include "evenkeel/inference/json_value.h"
#include "server/admin_client.h"
#include "server/admin_text.h"
#include "server/table.h"

namespace evenkeel {
namespace {

constexpr int exit_done = 0;
constexpr int exit_refused = 1;
constexpr int exit_usage = 2;
constexpr int exit_unreachable = 5;
constexpr Duration patience = std::chrono::seconds(10);
constexpr Duration wait_patience = std::chrono::hours(1);
constexpr Duration between_looks = std::chrono::milliseconds(250);

/// What a server says is shown as text, whatever it holds.
void complain(std::string_view what) { fmt::print(stderr, "evenkeel ctl: {}\n", printable(what)); }

void print_lines(const Lines& lines) {
  for (const std::string& line : lines) fmt::print("{}\n", line);
}

/// What came of a question: a document, or the exit code with which the verb ends.
struct Heard {
  int exit_code = exit_done;
  std::string text;
  JsonValue document;

  bool good() const { return exit_code == exit_done; }
};

class Ctl {
 public:
  Ctl(const CtlOptions& options, AdminClient& client) : options_(options), client_(client) {}

  int run();

 private:
  int status();
  int backends();
  int drain();
  int act(std::string_view action, std::string body = {});
  int reload();
  std::string backend_path(std::string_view action) const;
  Heard get(std::string_view what);
  Heard hear(Result<Fetched> answer) const;
  void refuse(const Heard& heard, int status) const;

  const CtlOptions& options_;
  AdminClient& client_;
};

int Ctl::run() {
  switch (options_.verb) {
    case CtlVerb::status: return status();
    case CtlVerb::backends: return backends();
    case CtlVerb::drain: return drain();
    case CtlVerb::undrain: return act("undrain");
    case CtlVerb::weight: return act("weight", fmt::format("{{\"weight\":{}}}", options_.weight));
    case CtlVerb::reload: return reload();
  }
  return exit_usage;
}

int Ctl::status() {
  const Heard status = get("status");
  if (!status.good()) return status.exit_code;
  if (options_.json) {
    fmt::print("{}", status.text);
    return exit_done;
  }
  const Heard pools = get("pools");
  if (!pools.good()) return pools.exit_code;
  print_lines(status_text(status.document, pools.document));
  return exit_done;
}

int Ctl::backends() {
  const Heard heard = get("backends");
  if (!heard.good()) return heard.exit_code;
  if (options_.json) {
    fmt::print("{}", heard.text);
    return exit_done;
  }
  const auto since_epoch = std::chrono::system_clock::now().time_since_epoch();
  print_lines(backends_text(heard.document, std::chrono::duration<double>(since_epoch).count()));
  return exit_done;
}

int Ctl::drain() {
  if (!options_.wait) return act("drain");
  while (true) {
    // Asked again each time: it answers with the backend, and changes nothing more.
    const Heard heard = hear(client_.post(backend_path("drain"), {}, patience));
    if (!heard.good()) return heard.exit_code;
    const double in_flight = heard.document["in_flight"].number().value_or(0);
    if (in_flight == 0) return act("drain");
    std::this_thread::sleep_for(between_looks);
  }
}

int Ctl::act(std::string_view action, std::string body) {
  const Heard heard = hear(client_.post(backend_path(action), std::move(body), patience));
  if (!heard.good()) return heard.exit_code;
  if (options_.json) {
    fmt::print("{}", heard.text);
    return exit_done;
  }
  const JsonValue& backend = heard.document;
  fmt::print("{} of pool {}: {}, weight {}, {} in flight\n", printable(backend["id"].text()),
             printable(backend["pool"].text()), printable(backend["state"].text()),
             backend["weight"].number().value_or(0), backend["in_flight"].number().value_or(0));
  return exit_done;
}

int Ctl::reload() {
  const Duration time = options_.wait ? wait_patience : patience;
  const Heard heard = hear(client_.post("/api/v1/reload", {}, time));
  if (options_.json && !heard.text.empty()) fmt::print("{}", heard.text);
  if (!heard.good() || options_.json) return heard.exit_code;
  const JsonValue& config = heard.document["config"];
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

Heard Ctl::get(std::string_view what) {
  return hear(client_.get(fmt::format("/api/v1/{}", what), patience));
}

/// Complains where there is reason to.
Heard Ctl::hear(Result<Fetched> answer) const {
  if (!answer) {
    complain(fmt::format("no answer from {}: {}", client_.address(), answer.error().detail));
    return {.exit_code = exit_unreachable};
  }
  Heard heard{.text = std::move(answer->body)};
  auto document = parse_json(heard.text);
  if (!document) {
    complain(fmt::format("{} answers with status {} and no JSON: no evenkeel's admin listener?",
                         client_.address(), answer->status));
    return {.exit_code = exit_unreachable};
  }
  heard.document = std::move(*document);
  if (answer->status != 200) {
    heard.exit_code = exit_refused;
    refuse(heard, answer->status);
  }
  return heard;
}

void Ctl::refuse(const Heard& heard, int status) const {
  if (heard.document.is_list()) {
    if (options_.json) return;
    complain("the file has mistakes; what ran before runs on");
    for (const std::string& line : problems_text(heard.document)) {
      fmt::print(stderr, "{}\n", line);
    }
    return;
  }
  const std::string& error = heard.document["error"].text();
  const std::string_view cure = status == 409   ? " (--pool NAME)"
                                : status == 401 ? " (--token-file FILE)"
                                                : "";
  complain(fmt::format("{}{}", error.empty() ? fmt::format("status {}", status) : error, cure));
}

}  // namespace

int run_ctl(const CtlOptions& options) {
  auto client = AdminClient::open({.address = options.admin, .token_file = options.token_file});
  if (!client) {
    complain(client.error().detail);
    return client.error().fault == Fault::bad_request ? exit_usage : exit_unreachable;
  }
  return Ctl(options, **client).run();
}

}  // namespace evenkeel
