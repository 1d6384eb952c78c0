#include "evenkeel/http/client_key.h"

#include "evenkeel/http/message.h"

namespace evenkeel {

std::uint64_t client_key(const RequestIdentity& identity) {
  return client_key(identity.tenant_index, identity.client);
}

}  // namespace evenkeel
