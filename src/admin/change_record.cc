#include "admin/change_record.h"

#include <string>
#include <string_view>

#include "admin/authorization.h"

namespace evenkeel {
namespace {

/// True for a request that changes something where it is accepted. `status`: nothing: its answer
/// was cancelled.
bool is_change(const AdminRequest& request, std::optional<int> status) {
  const bool reads = request.method == "GET" || request.method == "HEAD";
  const bool is_nothing = status == 404 || status == 405;
  return !reads && !is_nothing && request.path() != "/api/v1/check";
}

/// What the change says: a weight, the time of a drain, levels of the log. A change whose end is
/// not known (503) may have happened.
std::string_view body_of(const AdminRequest& request, std::optional<int> status) {
  const bool may_have_happened = !status || status == 200 || status == 503;
  return may_have_happened ? request.body : std::string_view();
}

std::string_view token_of(const AdminRequest& request, const AdminConfig& admin) {
  if (!request.field("authorization")) return "none";
  return carries_token(request, admin.token_file) ? "right" : "wrong";
}

}  // namespace

ChangeRecord::~ChangeRecord() {
  if (log_ == nullptr) return;
  const AdminConfig& admin = config_->admin;
  const std::string_view token = token_of(request_, admin);
  const bool is_denied = status_ == 401 || status_ == 403;
  const bool changes = is_change(request_, status_);
  const bool is_accepted = changes && !is_denied;
  // Each answer to a token would tell whether it is the right one.
  const bool is_try = !admin.token_file.empty() && token == "wrong";
  if (!changes && !is_try) return;
  if (!is_accepted && !log_->admits(AuditRefusal::admin)) return;
  log_->record(is_accepted ? "admin" : "admin_refused",
               {{"client", request_.client},
                {"token", token},
                {"method", request_.method},
                {"path", request_.path()},
                {"pool", request_.parameter("pool")},
                {"route", request_.parameter("route")},
                {"body", is_accepted ? body_of(request_, status_) : std::string_view()},
                {"status", status_ ? JsonValue(*status_) : JsonValue()},
                {"outcome", status_ ? "" : "cancelled"}},
               is_accepted ? AuditCause::operators : AuditCause::clients);
}

}  // namespace evenkeel
