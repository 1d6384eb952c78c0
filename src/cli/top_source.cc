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
constexpr Duration fetch_interval = std::chrono::seconds(1);
constexpr Duration min_interval = std::chrono::milliseconds(500);

TopSnapshot snapshot_of(LiveState state) {
  const auto since_epoch = std::chrono::system_clock::now().time_since_epoch();
  return {.at = Clock::now(),
          .since_epoch = std::chrono::duration<double>(since_epoch).count(),
          .status = std::move(state.status),
          .pools = std::move(state.pools),
          .backends = std::move(state.backends)};
}

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
  LiveState state;
  const std::array<std::pair<std::string_view, JsonValue*>, 3> parts = {
      {{"status", &state.status}, {"pools", &state.pools}, {"backends", &state.backends}}};
  for (const auto& [name, document] : parts) {
    auto fetched = fetch_document(client, name);
    if (!fetched) return std::move(fetched.error());
    *document = std::move(*fetched);
  }
  return snapshot_of(std::move(state));
}

Result<std::optional<TopSnapshot>> TopSource::next(Duration timeout) {
  if (!has_live_events_) return next_document();
  auto event = client_.next_event(timeout);
  if (!event && event.error().fault == Fault::backend_protocol) {
    has_live_events_ = false;
    return next_document();
  }
  if (!event) return std::move(event.error());
  if (!*event) return std::optional<TopSnapshot>();
  auto data = parse_json((*event)->data);
  if (!data) return std::move(data.error());
  state_ = after_event(std::move(state_), (*event)->kind, *data);
  if (Clock::now() < last_snapshot_ + min_interval) return std::optional<TopSnapshot>();
  last_snapshot_ = Clock::now();
  return std::optional(snapshot_of(state_));
}

Result<std::optional<TopSnapshot>> TopSource::next_document() {
  if (Clock::now() < last_snapshot_ + fetch_interval) return std::optional<TopSnapshot>();
  last_snapshot_ = Clock::now();
  auto snapshot = fetch_snapshot(client_);
  if (!snapshot) return std::move(snapshot.error());
  return std::optional(std::move(*snapshot));
}

}  // namespace evenkeel
