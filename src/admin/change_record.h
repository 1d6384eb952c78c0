// What the audit log has of changes through the admin API.
#pragma once

#include "admin/message.h"
#include "evenkeel/audit/audit_log.h"
#include "evenkeel/config/config.h"

namespace evenkeel {

/// Records a request that has changed something, or was to, and what it was answered.
void record_change(AuditLog& log, const AdminRequest& request, int status,
                   const AdminConfig& admin);

}  // namespace evenkeel
