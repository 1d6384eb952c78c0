#include "evenkeel/http/client_key.h"

#include "evenkeel/http/message.h"

namespace evenkeel {

/// Requests that belong to no tenant have an index too where the file names tenants.
std::uint32_t sharing_tenant(const RequestIdentity& identity) {
  return identity.tenant.name.empty() ? 0 : identity.tenant.index;
}

std::uint64_t client_key(const RequestIdentity& identity) {
  return client_key(sharing_tenant(identity), identity.client);
}

}  // namespace evenkeel
