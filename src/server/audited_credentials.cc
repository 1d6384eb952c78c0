#include "server/audited_credentials.h"

#include <string>

#include "evenkeel/base/api_key.h"
#include "evenkeel/base/fault_table.h"
#include "evenkeel/base/hash.h"
#include "evenkeel/base/path.h"

namespace evenkeel {
namespace {

std::string_view id_of(const ApiKey* key) {
  return key == nullptr ? "" : std::string_view(key->id);
}

}  // namespace

/// Each worker asks about a key once.
void AuditedCredentials::key_used(const RequestInfo& info) {
  const RequestTenant& tenant = info.identity.tenant;
  const bool is_new = seen_keys_.size() < AuditLog::max_keys &&
                      seen_keys_.insert(hash_of(hash_of(tenant.key->id), tenant.number)).second;
  if (!is_new) [[likely]]
    return;
  if (!log_.is_first_use(std::string(tenant.name) + ' ' + tenant.key->id)) return;
  log_.record("key_first_used",
              {{"key", tenant.key->id},
               {"name", tenant.key->name},
               {"tenant", tenant.name},
               {"client", info.identity.client},
               {"request_id", info.identity.request_id}},
              AuditCause::clients);
}

void AuditedCredentials::refused(const RequestInfo& info, std::string_view path) {
  const bool is_unknown = info.outcome.fault == Fault::unauthorized;
  if (!log_.admits(is_unknown ? AuditRefusal::unauthorized : AuditRefusal::model_not_allowed))
    return;
  const RequestTenant& tenant = info.identity.tenant;
  log_.record("refused",
              {{"reason", to_string(*info.outcome.fault)},
               {"status", info.outcome.status},
               {"client", info.identity.client},
               {"listener", info.identity.listener},
               {"path", path.substr(0, path.find('?'))},
               {"tenant", tenant.name},
               {"key", id_of(tenant.key)},
               {"detail", info.outcome.detail},
               {"request_id", info.identity.request_id}},
              AuditCause::clients);
}

}  // namespace evenkeel
