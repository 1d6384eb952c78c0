// Why a request went where it went, or would go, as JSON documents of the admin API.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "admin/documents.h"
#include "evenkeel/json/value.h"

namespace evenkeel {

/// Returns what is remembered of the last request with this id: how it ended, which routes were
/// looked at if none took it, and its attempts with their decisions. Nothing: it is not known.
std::optional<JsonValue> explain_request(const RuntimeView& view, std::string_view request_id);

/// A request that was not sent.
struct HypotheticalRequest {
  std::string method;
  std::string host;
  std::string path;
  std::string model;  ///< of its body; empty: it has none that is read
};

/// Returns which route would take the request now, why those before it would not, and what the
/// route's pools would choose.
JsonValue explain_hypothetical(const RuntimeView& view, const HypotheticalRequest& request);

}  // namespace evenkeel
