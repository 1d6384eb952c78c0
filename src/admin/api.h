// The endpoints of the admin listener.
#pragma once

#include "admin/actions.h"
#include "admin/asio.h"
#include "admin/cached.h"
#include "admin/event_history.h"
#include "admin/live_feed.h"
#include "admin/message.h"
#include "admin/metrics_cache.h"
#include "admin/sample_history.h"
#include "admin/sessions_cache.h"
#include "admin/tenant_usage.h"
#include "evenkeel/admin/reported_state.h"
#include "evenkeel/admin/runtime_status.h"
#include "evenkeel/json/value.h"

namespace evenkeel {

enum class AdminEndpoint : std::uint8_t;

/// Turns requests into replies. REQUIRES: the status has its pool set when this is made; `runtime`
/// outlives it. Thread: the management thread.
class AdminApi {
 public:
  AdminApi(IoContextPtr io, const RuntimeAccess& runtime);
  AdminApi(const AdminApi&) = delete;

  Awaitable<AdminReply> handle(const AdminRequest& request);
  /// What a reply with `live` set is followed by.
  LiveFeed& live_feed() { return live_feed_; }

  /// Keeps `since` of backends right whether or not they are looked at. Runs until `stop`.
  Awaitable<void> watch_states();
  /// Takes the samples of the live page. Runs until `stop`.
  Awaitable<void> take_samples();
  void stop();

 private:
  Awaitable<AdminReply> answer(const AdminRequest& request);
  AdminReply read(AdminEndpoint endpoint, const AdminRequest& request);
  AdminReply metrics(const AdminRequest& request);
  void update_events(const RuntimeView& view);
  AdminReply history(const AdminRequest& request);
  AdminReply access(const AdminRequest& request) const;
  AdminReply config(const RuntimeStatus& status, const AdminRequest& request);
  AdminReply decisions(std::string_view request_id) const;
  AdminReply explain(const AdminRequest& request) const;
  AdminReply readyz(std::string_view query) const;
  Awaitable<AdminReply> healthz();
  JsonValue live_state();
  AdminReply snapshot(const AdminRequest& request);

  IoContextPtr io_;
  const RuntimeAccess& runtime_;
  EventHistory events_;
  AdminActions actions_;
  MetricsCache metrics_cache_;
  std::shared_ptr<SessionsCache> sessions_cache_ = std::make_shared<SessionsCache>();
  LiveFeed live_feed_;
  SampleHistory samples_;
  TenantUsage tenant_usage_;
  Cached<CompressibleText> snapshot_;
  IoTimer state_timer_;
  IoTimer sample_timer_;
  std::shared_ptr<const Config> shown_config_;  // that `config_text_` shows
  CompressibleText config_text_;
  bool stopped_ = false;
};

}  // namespace evenkeel
