#include "evenkeel/cli/quick.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <optional>
#include <utility>

#include "cli/quick_draft.h"
#include "evenkeel/base/exit_codes.h"
#include "evenkeel/base/text_table.h"
#include "evenkeel/config/load.h"

namespace evenkeel {
namespace {

constexpr Duration detection_timeout = std::chrono::seconds(3);

void print_note(const std::string& line) { fmt::print(stderr, "evenkeel quick: {}\n", line); }

/// How to write a URL that was refused.
std::string suggested_url(std::string_view url) {
  const std::size_t scheme = url.find("://");
  const std::size_t begin = scheme == std::string_view::npos ? 0 : scheme + 3;
  const std::string host(url.substr(begin, url.find_first_of("/?#", begin) - begin));
  const std::string candidate = "http://" + host.substr(host.find('@') + 1);
  const bool has_port = candidate.find_last_of(':') > candidate.find_last_of("/]");
  std::string why;
  if (parse_backend_address(candidate, why)) {
    return "write " + candidate + (has_port ? "" : ":PORT");
  }
  return "write http://host:port";
}

/// The servers to ask, each once. Appends what is wrong with a URL to `errors`.
std::vector<DetectedServer> read_urls(const std::vector<std::string>& urls,
                                      std::vector<std::string>& errors) {
  std::vector<DetectedServer> servers;
  for (const std::string& url : urls) {
    std::string why;
    const auto address = parse_backend_address(url, why);
    if (!address) {
      errors.push_back(fmt::format("'{}': {}; {}", url, why, suggested_url(url)));
    } else if (address->secure) {
      errors.push_back(fmt::format(
          "'{}': only servers without TLS can be probed; name it as a backend in a file", url));
    } else if (std::ranges::find(servers, "http://" + to_string(*address), &DetectedServer::url) !=
               servers.end()) {
      print_note(fmt::format("warning: {} is given twice; it is used once", url));
    } else {
      servers.push_back({.url = "http://" + to_string(*address), .address = *address});
    }
  }
  return servers;
}

Address read_listen(const char* option, const std::string& text, std::vector<std::string>& errors) {
  std::string why;
  const auto address = parse_address(text, why);
  if (address) return *address;
  errors.push_back(fmt::format("{} '{}': {}; write host:port or :port", option, text, why));
  return {};
}

bool is_loopback(const std::string& host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

/// True if a connection to the server would reach the listener.
bool overlaps(const Address& listener, const Address& server) {
  if (listener.port != server.port) return false;
  const bool is_wildcard = listener.host == "0.0.0.0" || listener.host == "::";
  return listener.host == server.host || (is_loopback(server.host) && is_wildcard) ||
         (is_loopback(server.host) && is_loopback(listener.host));
}

/// Refuses servers on our own address: llama-server's default port is 8080, like ours.
void check_listen_conflicts(const char* option, const Address& listener,
                            const std::vector<DetectedServer>& servers,
                            std::vector<std::string>& errors) {
  for (const DetectedServer& server : servers) {
    if (!overlaps(listener, server.address)) continue;
    errors.push_back(
        fmt::format("{} is an address that evenkeel itself would listen on; set another with {}",
                    server.url, option));
  }
}

void detect(std::vector<DetectedServer>& servers) {
  std::vector<Address> addresses;
  addresses.reserve(servers.size());
  for (const DetectedServer& server : servers) addresses.push_back(server.address);
  std::vector<DetectionResult> results = detect_all(addresses, detection_timeout);
  for (std::size_t i = 0; i < servers.size(); ++i) servers[i].result = std::move(results[i]);
}

/// Why servers cannot be used; every server is listed if none answered.
std::vector<std::string> unusable_servers(const std::vector<DetectedServer>& servers) {
  using Outcome = DetectionResult::Outcome;
  const bool any_answered = std::ranges::any_of(servers, [](const DetectedServer& server) {
    return server.result.outcome == Outcome::answered;
  });
  std::vector<std::string> errors;
  for (const DetectedServer& server : servers) {
    const std::string reason = printable(server.result.reason);
    switch (server.result.outcome) {
      case Outcome::unresolved: errors.push_back(fmt::format("{}: {}", server.url, reason)); break;
      case Outcome::not_http:
        errors.push_back(
            fmt::format("{}: does not speak HTTP/1.1 ({}); is this its HTTPS or gRPC port?",
                        server.url, reason));
        break;
      case Outcome::silent:
        if (!any_answered) {
          errors.push_back(fmt::format("{}: does not answer ({})", server.url, reason));
        }
        break;
      case Outcome::answered: break;
    }
  }
  if (!any_answered && !errors.empty()) {
    errors.emplace_back(
        "no server answered, so no engine could be detected; start at least one server first");
  }
  return errors;
}

int report_errors(const std::vector<std::string>& errors, int code) {
  for (const std::string& error : errors) print_note(error);
  return code;
}

}  // namespace

int run_quick(const QuickOptions& options) {
  std::vector<std::string> errors;
  std::vector<DetectedServer> servers = read_urls(options.urls, errors);
  if (options.urls.empty()) errors.emplace_back("give at least one server: http://host:port");
  const DraftOptions draft_options{.listen = read_listen("--listen", options.listen, errors),
                                   .admin = read_listen("--admin", options.admin, errors),
                                   .picker = options.picker};
  check_listen_conflicts("--listen", draft_options.listen, servers, errors);
  check_listen_conflicts("--admin", draft_options.admin, servers, errors);
  if (!errors.empty()) return report_errors(errors, exit_usage);

  detect(servers);
  const std::vector<std::string> reasons = unusable_servers(servers);
  if (!reasons.empty()) return report_errors(reasons, exit_failed);

  const Draft draft = draft_config(draft_options, servers);
  for (const std::string& note : draft.notes) print_note(note);
  const std::string text = print_config(draft.config, false);
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
  return options.serve(text);
}

}  // namespace evenkeel
