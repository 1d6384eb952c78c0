// The state of the daemon as the JSON documents of the admin API.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>

#include "evenkeel/admin/reported_state.h"
#include "evenkeel/admin/runtime_status.h"
#include "evenkeel/json/value.h"
#include "evenkeel/upstream/backend_status.h"

namespace evenkeel {

/// What one document is made from, taken at one moment. Thread: any.
struct RuntimeView {
  explicit RuntimeView(const RuntimeAccess& runtime);

  const RuntimeAccess& runtime;
  RuntimeStatusPublisher::Snapshot status;
  std::shared_ptr<const MonitorSnapshot> monitored;  ///< never null
  Instant now;
};

/// Returns null for an empty text.
JsonValue text_or_null(std::string_view text);

/// Returns a problem as `check --json` prints it.
JsonValue problem_document(const Problem& problem);

JsonValue status_document(const RuntimeView& view);
/// Returns the configuration in use as YAML, without the values of variables, and what the last
/// accepted reload has changed.
JsonValue config_document(const RuntimeStatus& status);
JsonValue::List pools_document(const RuntimeView& view);

/// REQUIRES, of this and the next: `history` was updated with the pool set of `view`.
JsonValue::List backends_document(const RuntimeView& view, const BackendStateHistory& history);
/// Returns one backend, by its position in the pool set.
JsonValue backend_document(const RuntimeView& view, const BackendStateHistory& history,
                           std::size_t pool, std::size_t backend);

}  // namespace evenkeel
