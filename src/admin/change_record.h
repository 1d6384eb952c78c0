// What the audit log has of changes through the admin API.
#pragma once

#include <memory>
#include <optional>
#include <utility>

#include "admin/message.h"
#include "evenkeel/audit/audit_log.h"
#include "evenkeel/config/config.h"

namespace evenkeel {

/// Records a request that changes something, or was to, or that has a wrong token, at its end: what
/// it was answered, or that its answer was cancelled.
class ChangeRecord {
 public:
  /// The log and the request outlive it. `log`: null: off.
  ChangeRecord(AuditLog* log, const AdminRequest& request, std::shared_ptr<const Config> config)
      : log_(log), request_(request), config_(std::move(config)) {}
  ChangeRecord(const ChangeRecord&) = delete;
  ChangeRecord& operator=(const ChangeRecord&) = delete;
  ~ChangeRecord();

  void answered(int status) { status_ = status; }

 private:
  AuditLog* const log_;
  const AdminRequest& request_;
  const std::shared_ptr<const Config> config_;
  std::optional<int> status_;  // nothing: the answer was cancelled
};

}  // namespace evenkeel
