#include "cli/top_source.h"

#include <fmt/format.h>

#include <array>
#include <chrono>
#include <string_view>
#include <utility>

#include "cli/admin_text.h"

namespace evenkeel {
namespace {

constexpr Duration request_timeout = std::chrono::seconds(5);

Result<JsonValue> fetch_document(AdminClient& client, std::string_view name) {
  auto response = client.get(fmt::format("/api/v1/{}", name), request_timeout);
  if (!response) return std::move(response.error());
  auto parsed = parse_json(response->body);
  if (response->status == 200 && parsed) return parsed;
  if (parsed && !(*parsed)["error"].text().empty())
    return Error{.fault = Fault::bad_request,
                 .side = Side::client,
                 .detail = error_text(*parsed, response->status)};
  return Error{.fault = Fault::backend_protocol,
               .side = Side::backend,
               .detail = fmt::format("status {} for its {}; it is not the admin listener of "
                                     "an evenkeel",
                                     response->status, name)};
}

}  // namespace

Result<JsonValue> fetch_recent_requests(AdminClient& client) {
  return fetch_document(client, "requests/recent");
}

Result<TopSnapshot> fetch_snapshot(AdminClient& client) {
  TopSnapshot snapshot;
  const std::array<std::pair<std::string_view, JsonValue*>, 3> parts = {
      {{"status", &snapshot.status}, {"pools", &snapshot.pools}, {"backends", &snapshot.backends}}};
  for (const auto& [name, document] : parts) {
    auto fetched = fetch_document(client, name);
    if (!fetched) return std::move(fetched.error());
    *document = std::move(*fetched);
  }
  snapshot.at = Clock::now();
  snapshot.since_epoch = unix_seconds();
  return snapshot;
}

}  // namespace evenkeel
