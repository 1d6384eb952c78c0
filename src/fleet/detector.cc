#include "evenkeel/fleet/detector.h"

#include <algorithm>
#include <future>
#include <optional>
#include <span>
#include <utility>

#include "evenkeel/fleet/fetch.h"

namespace evenkeel {
namespace {

constexpr std::size_t most_at_a_time = 64;  // servers: some hundreds of connections

using Addresses = Result<std::vector<Endpoint>>;

/// Names are asked for on threads of their own: a name server may take seconds to say no.
std::vector<std::future<Addresses>> resolve_each(std::span<const Address> servers) {
  std::vector<std::future<Addresses>> resolved;
  for (const Address& server : servers) {
    const auto how = parse_ip(server.host) ? std::launch::deferred : std::launch::async;
    resolved.push_back(std::async(how, resolve, server.host, server.port));
  }
  return resolved;
}

void detect_group(std::span<const Address> servers, Duration patience,
                  std::vector<Finding>& findings) {
  auto resolved = resolve_each(servers);
  std::vector<Addresses> addresses;
  addresses.reserve(servers.size());
  for (auto& each : resolved) addresses.push_back(each.get());

  Loop loop;
  const Instant deadline = loop.read_clock() + patience;
  std::vector<Task<Finding>> tasks;
  for (std::size_t i = 0; i < servers.size(); ++i) {
    if (addresses[i]) {
      tasks.push_back(detect(loop, std::move(*addresses[i]), to_string(servers[i]), deadline));
    } else {
      tasks.emplace_back(Finding{.outcome = Finding::Outcome::unresolved,
                                 .reason = std::move(addresses[i].error().detail)});
    }
  }
  loop.run_until([&] { return std::ranges::all_of(tasks, &Task<Finding>::ready); });
  for (auto& task : tasks) findings.push_back(task.take());
}

}  // namespace

Task<Finding> detect(Loop& loop, std::vector<Endpoint> addresses, std::string authority,
                     Instant deadline) {
  return detect(
      [&loop, addresses = std::move(addresses), authority = std::move(authority)](std::string path,
                                                                                  Instant until) {
        return fetch(loop,
                     {.addresses = addresses,
                      .authority = authority,
                      .path = std::move(path),
                      .fields = {{"user-agent", "evenkeel"}, {"accept", "*/*"}}},
                     until);
      },
      deadline);
}

Task<Finding> detect(AskPath ask, Instant deadline) {
  Finding finding;
  std::vector<ProbeAnswer> answers;
  std::size_t told = 0;
  std::size_t questions = 0;
  for (const auto round : probe_rounds()) {
    std::vector<Task<Result<Fetched>>> asked;
    for (const std::string_view path : round) {
      asked.push_back(ask(std::string(path), deadline));
    }
    questions += round.size();
    for (std::size_t i = 0; i < asked.size(); ++i) {
      auto next = std::move(asked[i]);
      auto fetched = co_await next;
      if (fetched) {
        answers.push_back({.path = std::string(round[i]),
                           .status = fetched->status,
                           .server = std::move(fetched->server),
                           .body = std::move(fetched->body)});
        if (is_told(answers.back())) ++told;
        continue;
      }
      finding.hindered |= fetched.error().side == Side::us;
      if (finding.reason.empty()) finding.reason = fetched.error().detail;
      if (fetched.error().fault == Fault::backend_protocol) {
        finding.outcome = Finding::Outcome::not_http;
        finding.reason = fetched.error().detail;
      }
    }
    finding.identity = identify(answers);
    if (answers.empty() || !finding.identity.sign.empty()) break;
  }
  if (!answers.empty()) {
    finding.outcome = Finding::Outcome::answered;
    finding.reason.clear();
    finding.whole = told == questions;
  }
  co_return finding;
}

std::vector<Finding> detect_all(const std::vector<Address>& servers, Duration patience) {
  std::vector<Finding> findings;
  std::span<const Address> left = servers;
  while (!left.empty()) {
    const auto group = left.first(std::min(left.size(), most_at_a_time));
    detect_group(group, patience, findings);
    left = left.subspan(group.size());
  }
  return findings;
}

}  // namespace evenkeel
