// The tenants of requests.
#pragma once

#include <cstdint>
#include <map>
#include <string_view>
#include <vector>

#include "evenkeel/base/hash.h"
#include "evenkeel/config/config.h"
#include "evenkeel/http/message.h"
#include "evenkeel/net/sha256.h"
#include "evenkeel/stats/label_index.h"

namespace evenkeel {

/// Finds the tenant of a request: the one that a trusted proxy names (`tenant_header`), else the
/// one whose API key it has. Of keys only hashes are known: SHA-256 in the file, and of those that
/// requests sent last a faster one with a random seed, beside what was found, so that a client's
/// key is hashed with SHA-256 once and not for each request.
///
/// Thread: one worker's.
class Tenants {
 public:
  /// `config` outlives it.
  Tenants(const Config& config, LabelUses& label_uses);
  Tenants(const Tenants&) = delete;
  Tenants& operator=(const Tenants&) = delete;

  /// Sets the tenant in `request.info.identity`.
  void identify(Request& request);

 private:
  struct SeenKey {
    WideHash key_hash;
    const RequestTenant* tenant = nullptr;
  };

  const RequestTenant* named_by_proxy(const Request& request) const;
  const RequestTenant* with_key_of(const Request& request);
  const RequestTenant* with_key(std::string_view key);
  const RequestTenant* with_hash_of(std::string_view key) const;

  const std::vector<ListenerConfig>& listeners_;
  bool named_by_proxies_;
  std::map<std::string_view, RequestTenant> tenants_;  // by name
  std::map<Sha256, const RequestTenant*> by_key_hash_;
  const std::uint64_t seed_;
  std::vector<SeenKey> seen_keys_;  // by key_hash
};

}  // namespace evenkeel
