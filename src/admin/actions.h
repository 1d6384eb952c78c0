// What the admin API changes: a backend's drain and weight, the whole configuration.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "admin/asio.h"
#include "admin/event_history.h"
#include "admin/message.h"
#include "evenkeel/admin/reported_state.h"
#include "evenkeel/admin/runtime_status.h"

namespace evenkeel {

enum class BackendAction : std::uint8_t { drain, undrain, weight };

/// "/api/v1/backends/{id}/{action}?pool=NAME", parsed.
struct BackendCall {
  BackendAction action;
  std::string id;                   ///< decoded
  std::optional<std::string> pool;  ///< decoded; nothing: the only pool that has the id
};

/// Returns nothing if no action has such a path. The id may hold any character,
/// percent-encoded or, except for '?' and '%', as it is.
std::optional<BackendCall> parse_backend_call(const AdminRequest& request);

/// Makes the changes on the control loop and waits for the result. All references outlive the
/// operations. Thread: the management thread.
class AdminActions {
 public:
  AdminActions(IoContextPtr io, const RuntimeAccess& runtime, EventHistory& events)
      : io_(std::move(io)), runtime_(runtime), events_(events) {}

  /// The backend as it is then. 404 where there is no such backend, 409 where several pools have it
  /// and the call names none, 413 and 422 for a body that is not valid.
  Awaitable<AdminReply> apply(BackendCall call, const AdminRequest& request);

  /// 200 with the status, or 422 with the problems as `check --json` prints them.
  Awaitable<AdminReply> reload();

  /// 200 with the status, or 422 with the reason.
  Awaitable<AdminReply> upgrade();

  /// Drops the answers that pools keep, `?pool=NAME`: those of one; `{"dropped": N}`. 404: there is
  /// no such pool, or it keeps none. 503: those that replicas share may still be there.
  Awaitable<AdminReply> purge_answers(const AdminRequest& request);

  /// Begins the trial of the canary of `?route=NAME` again, and returns it. 404: the route has
  /// none.
  AdminReply restart_canary(const AdminRequest& request) const;

  /// What a reload of the request's body (empty: of the daemon's file) would refuse or change;
  /// changes nothing. `authorized`: the request carries the token. 429 while another preview is in
  /// progress.
  Awaitable<AdminReply> check(const AdminRequest& request, bool authorized);

 private:
  Awaitable<AdminReply> set_drained(BackendPtr backend, std::string pool, bool drained,
                                    std::optional<Duration> period);
  Awaitable<AdminReply> set_weight(std::string pool, std::string id, std::uint32_t weight);
  AdminReply backend_reply(const BackendCall& call);

  IoContextPtr io_;
  const RuntimeAccess& runtime_;
  EventHistory& events_;
};

}  // namespace evenkeel
