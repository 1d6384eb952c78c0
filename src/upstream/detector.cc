#include "evenkeel/upstream/detector.h"

#include <algorithm>
#include <future>
#include <optional>
#include <span>
#include <utility>

#include "evenkeel/base/host.h"

namespace evenkeel {
namespace {

constexpr std::size_t max_concurrent = 64;  // servers; takes some hundreds of connections

using Addresses = Result<std::vector<Endpoint>>;

/// Resolves names on threads of their own: a name server may take seconds to fail.
std::vector<std::future<Addresses>> resolve_each(std::span<const Address> servers) {
  std::vector<std::future<Addresses>> resolved;
  for (const Address& server : servers) {
    const auto how = parse_ip(server.host) ? std::launch::deferred : std::launch::async;
    resolved.push_back(std::async(how, resolve, server.host, server.port));
  }
  return resolved;
}

void detect_group(std::span<const Address> servers, Duration timeout,
                  std::vector<DetectionResult>& results) {
  auto resolved = resolve_each(servers);
  std::vector<Addresses> addresses;
  addresses.reserve(servers.size());
  for (auto& each : resolved) addresses.push_back(each.get());

  Loop loop;
  const Instant deadline = loop.read_clock() + timeout;
  std::vector<Task<DetectionResult>> tasks;
  for (std::size_t i = 0; i < servers.size(); ++i) {
    if (addresses[i]) {
      const Address& server = servers[i];
      tasks.push_back(detect(loop, std::move(*addresses[i]),
                             authority_of(normal_host(server.host), server.port, server.secure),
                             deadline));
    } else {
      tasks.emplace_back(DetectionResult{.outcome = DetectionResult::Outcome::unresolved,
                                         .reason = std::move(addresses[i].error().detail)});
    }
  }
  loop.run_until([&] { return std::ranges::all_of(tasks, &Task<DetectionResult>::ready); });
  for (auto& task : tasks) results.push_back(task.take());
}

}  // namespace

Task<DetectionResult> detect(Loop& loop, std::vector<Endpoint> addresses, std::string authority,
                             Instant deadline) {
  BackendClient client(loop,
                       {.addresses = std::move(addresses), .authority = std::move(authority)});
  auto result = co_await detect(client, deadline);
  co_return result;
}

Task<DetectionResult> detect(BackendClient& client, Instant deadline) {
  DetectionResult result;
  std::vector<DetectionResponse> answers;
  std::size_t answered_count = 0;
  std::size_t request_count = 0;
  for (const auto round : detection_rounds()) {
    std::vector<Task<Result<Fetched>>> pending;
    for (const std::string_view path : round) {
      pending.push_back(client.fetch({.path = std::string(path)}, deadline));
    }
    request_count += round.size();
    for (std::size_t i = 0; i < pending.size(); ++i) {
      auto next = std::move(pending[i]);
      auto fetched = co_await next;
      if (fetched) {
        answers.push_back({.path = std::string(round[i]),
                           .status = fetched->status,
                           .server = std::move(fetched->server),
                           .body = std::move(fetched->body)});
        if (is_conclusive(answers.back())) ++answered_count;
        continue;
      }
      result.blocked_locally |= fetched.error().side == Side::proxy;
      if (result.reason.empty()) result.reason = fetched.error().detail;
      if (fetched.error().fault == Fault::backend_protocol) {
        result.outcome = DetectionResult::Outcome::not_http;
        result.reason = fetched.error().detail;
      }
    }
    result.identity = identify_engine(answers);
    if (answers.empty() || !result.identity.evidence.empty()) break;
  }
  if (!answers.empty()) {
    result.outcome = DetectionResult::Outcome::answered;
    result.reason.clear();
    result.conclusive = answered_count == request_count;
  }
  co_return result;
}

std::vector<DetectionResult> detect_all(const std::vector<Address>& servers, Duration timeout) {
  std::vector<DetectionResult> results;
  std::span<const Address> left = servers;
  while (!left.empty()) {
    const auto group = left.first(std::min(left.size(), max_concurrent));
    detect_group(group, timeout, results);
    left = left.subspan(group.size());
  }
  return results;
}

}  // namespace evenkeel
