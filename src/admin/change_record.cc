#include "admin/change_record.h"

#include <string>
#include <string_view>

#include "admin/authorization.h"

namespace evenkeel {
namespace {

/// True for a request that changes something where it is accepted.
bool is_change(const AdminRequest& request, int status) {
  const bool reads = request.method == "GET" || request.method == "HEAD";
  const bool is_nothing = status == 404 || status == 405;
  return !reads && !is_nothing && request.path() != "/api/v1/check";
}

/// What the change says: a weight, the time of a drain, levels of the log.
std::string_view body_of(const AdminRequest& request, int status) {
  return status == 200 ? request.body : std::string_view();
}

std::string_view token_of(const AdminRequest& request, const AdminConfig& admin) {
  if (!request.field("authorization")) return "none";
  return carries_token(request, admin.token_file) ? "right" : "wrong";
}

}  // namespace

void record_change(AuditLog& log, const AdminRequest& request, int status,
                   const AdminConfig& admin) {
  if (!is_change(request, status)) return;
  const bool is_denied = status == 401 || status == 403;
  if (is_denied && !log.admits(AuditRefusal::admin)) return;
  log.record(is_denied ? "admin_refused" : "admin", {{"client", request.client},
                                                     {"token", token_of(request, admin)},
                                                     {"method", request.method},
                                                     {"path", request.path()},
                                                     {"pool", request.parameter("pool")},
                                                     {"body", body_of(request, status)},
                                                     {"status", status}});
}

}  // namespace evenkeel
