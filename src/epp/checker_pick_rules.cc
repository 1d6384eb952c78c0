// Rules on where the pick is and how it is written.
#include <fmt/format.h>

#include "epp/checker_rules.h"
#include "evenkeel/base/host.h"
#include "evenkeel/config/address.h"

namespace evenkeel {

std::string endpoint_list_problem(std::string_view list) {
  do {
    const std::size_t comma = std::min(list.find(','), list.size());
    const std::string_view endpoint = list.substr(0, comma);
    list.remove_prefix(std::min(comma + 1, list.size()));
    if (endpoint.empty()) return "an endpoint is empty";
    std::string why;
    const auto address = parse_address(endpoint, why);
    if (!address) return fmt::format("'{}': {}", endpoint, why);
    if (!parse_ip(address->host)) return fmt::format("'{}' is no IP address with a port", endpoint);
    if (address->port == 0) return fmt::format("'{}' has no port", endpoint);
  } while (!list.empty());
  return "";
}

Task<Finding> check_pick(CheckSession& session) {
  const PickerAnswer& answer = session.first();
  if (!answer.header) {
    return fails(answer.picked() ? "the metadata alone: " + *answer.metadata : answer.summary());
  }
  if (answer.has_two_values) return fails(*answer.header + " as value, and a raw_value too");
  return holds(*answer.header);
}

Task<Finding> check_pick_metadata(CheckSession& session) {
  const PickerAnswer& answer = session.first();
  if (!answer.metadata) return fails("the header alone: " + *answer.header);
  return holds(*answer.metadata);
}

Task<Finding> check_pick_equal(CheckSession& session) {
  const PickerAnswer& answer = session.first();
  if (!answer.header || !answer.metadata) return skips("one of the two is missing");
  if (*answer.header == *answer.metadata) return holds(*answer.header + " in both");
  return fails(
      fmt::format("{} in the header, {} in the metadata", *answer.header, *answer.metadata));
}

Task<Finding> check_endpoint_syntax(CheckSession& session) {
  const PickerAnswer& answer = session.first();
  for (const auto& list : {answer.header, answer.metadata}) {
    if (!list) continue;
    const std::string problem = endpoint_list_problem(*list);
    if (!problem.empty()) return fails(problem);
  }
  const std::size_t count = answer.endpoints().size();
  return holds(fmt::format("{} endpoint{}", count, count == 1 ? "" : "s"));
}

Task<Finding> check_route_cache(CheckSession& session) {
  const bool clears = session.first().clears_route_cache;
  return clears ? holds("clear_route_cache is set") : fails("clear_route_cache is not set");
}

Task<Finding> check_claimed_destination(CheckSession& session) {
  ProxiedRequest request = session.request();
  request.claimed = "203.0.113.1:9";
  auto answer = co_await session.exchange(request);
  if (!answer.header) co_return fails(answer.summary());
  if (answer.header->find(request.claimed) == std::string::npos) co_return holds(*answer.header);
  co_return fails("the picker repeats the client's " + request.claimed);
}

}  // namespace evenkeel
