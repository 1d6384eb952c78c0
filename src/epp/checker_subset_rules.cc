// Rules on the endpoints that a data plane allows.
#include <fmt/format.h>

#include <initializer_list>
#include <utility>

#include "epp/checker_rules.h"

namespace evenkeel {
namespace {

/// Addresses for documentation (RFC 5737), which no server has.
constexpr std::string_view unknown_endpoint = "203.0.113.1:9";
constexpr std::string_view other_unknown_endpoint = "203.0.113.2:9";

ext_proc::Value list_of(std::initializer_list<std::string_view> endpoints) {
  ext_proc::Value value;
  value.mutable_list_value();
  for (const std::string_view endpoint : endpoints) {
    value.mutable_list_value()->add_values()->set_string_value(std::string(endpoint));
  }
  return value;
}

ext_proc::Value text_of(std::string text) {
  ext_proc::Value value;
  value.set_string_value(std::move(text));
  return value;
}

/// Asks several times, since a picker that ignores the hint may pick the endpoint by chance.
Task<Finding> check_stays_inside(CheckSession& session, ext_proc::Value subset) {
  constexpr int times = 8;
  const std::string allowed = session.known_endpoint();
  for (int i = 0; i < times; ++i) {
    ProxiedRequest request = session.request();
    request.subset = subset;
    auto answer = co_await session.exchange(request);
    if (!answer.picked()) co_return fails(answer.summary());
    for (const std::string& endpoint : answer.endpoints()) {
      if (endpoint != allowed) {
        co_return fails(fmt::format("{} picked, only {} allowed", endpoint, allowed));
      }
    }
  }
  co_return holds(fmt::format("{} in {} of {}", allowed, times, times));
}

Task<Finding> check_refused(CheckSession& session, ext_proc::Value subset) {
  ProxiedRequest request = session.request();
  request.subset = std::move(subset);
  auto answer = co_await session.exchange(request);
  const bool refused = answer.immediate && answer.immediate->status == 503;
  co_return refused ? holds(answer.summary()) : fails(answer.summary());
}

}  // namespace

Task<Finding> check_subset(CheckSession& session) {
  const std::string known = session.known_endpoint();
  ext_proc::Value alone = list_of({known});
  ext_proc::Value beside_unknown = list_of({unknown_endpoint, known});
  auto finding = co_await check_stays_inside(session, std::move(alone));
  if (finding.verdict != RuleVerdict::ok) co_return finding;
  finding = co_await check_stays_inside(session, std::move(beside_unknown));
  co_return finding;
}

Task<Finding> check_subset_text(CheckSession& session) {
  const std::string known = session.known_endpoint();
  return check_stays_inside(session, text_of(fmt::format("{},{}", unknown_endpoint, known)));
}

Task<Finding> check_subset_unknown(CheckSession& session) {
  return check_refused(session, list_of({unknown_endpoint, other_unknown_endpoint}));
}

Task<Finding> check_subset_empty(CheckSession& session) {
  return check_refused(session, list_of({}));
}

}  // namespace evenkeel
