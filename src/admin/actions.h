// What the admin API changes: drain and undrain a backend, its weight, the whole file.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "evenkeel/admin/backend_state.h"
#include "evenkeel/admin/runtime_status.h"
#include "evenkeel/http/message.h"

namespace evenkeel {

/// What to answer a call with.
struct AdminResponse {
  int status = 200;
  std::string document;  ///< JSON
};

/// An {"error": ...}.
AdminResponse admin_error(int status, std::string_view message);

enum class BackendAction { drain, undrain, weight };

/// "/api/v1/backends/{id}/{action}?pool=NAME", taken apart.
struct BackendCall {
  BackendAction action;
  std::string id;                   ///< decoded
  std::optional<std::string> pool;  ///< decoded; nothing: wherever the id is the only one
};

/// Nothing: no action has such a path. `path` is without its query. The id may hold what it likes,
/// in percent-encoding or, but for '?' and '%', as it is.
std::optional<BackendCall> parse_backend_call(std::string_view path, std::string_view query);

/// Does it. 404 where there is no such backend, 409 where several pools have it and none is named,
/// 413 and 422 for a body that will not do. `request` is only asked for its body.
///
/// Thread: the control loop's. All references outlive the task.
Task<AdminResponse> apply_backend_action(const RuntimeAccess& runtime, BackendStateHistory& history,
                                         BackendCall call, Request& request);

/// 200 with the status, or 422 with the problems as `check --json` prints them.
Task<AdminResponse> apply_reload(const RuntimeAccess& runtime);

}  // namespace evenkeel
