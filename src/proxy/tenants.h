// The tenants of requests.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "evenkeel/base/certificate_names.h"
#include "evenkeel/base/clock.h"
#include "evenkeel/base/hash.h"
#include "evenkeel/config/config.h"
#include "evenkeel/filter/auth.h"
#include "evenkeel/http/message.h"
#include "evenkeel/net/token_issuers.h"
#include "evenkeel/stats/label_index.h"
#include "evenkeel/tenancy/key_table.h"

namespace evenkeel {

/// Finds the tenant of a request: the one that a trusted proxy names (`tenant_header`), else the
/// one whose API key it has, or that a token of it names, else the one whose client certificate its
/// connection has. Of keys only hashes are known: SHA-256 in the table of keys, and of those that
/// requests sent last a faster one with a random seed, beside what was found, so that a client's
/// key is hashed with SHA-256, its token verified, and the names in its certificate looked up, once
/// and not for each request. A key that has expired or left the table counts no longer for the next
/// request, nor does a token or a certificate that has expired.
///
/// Thread: one worker's.
class Tenants {
 public:
  /// `config` outlives it. `keys`: null for those that the configuration has itself. `issuers`:
  /// null: tokens do not count.
  Tenants(const Config& config, LabelUses& label_uses,
          std::shared_ptr<const KeyTable> keys = nullptr,
          std::shared_ptr<const TokenIssuers> issuers = nullptr);
  Tenants(const Tenants&) = delete;
  Tenants& operator=(const Tenants&) = delete;

  /// The keys that count from now on.
  void adopt(std::shared_ptr<const KeyTable> keys);
  /// The issuers whose tokens count from now on. Tokens are verified again.
  void adopt(std::shared_ptr<const TokenIssuers> issuers);

  /// Sets the tenant in `request.info.identity`. The request keeps what that points to.
  void identify(Request& request);
  /// Why the request has no tenant. REQUIRES: it has none.
  CredentialState state_of_keys(const Request& request);
  /// Removes the key by which the request is known, from each field that has it.
  void remove_credential(Request& request);

 private:
  static constexpr double never_expires = std::numeric_limits<double>::infinity();
  static constexpr double expired = 0;
  static constexpr double undecided = -1;  // to be verified again: it may become valid
  static constexpr double keyless = -2;    // its issuer's keys are not there yet
  /// What is known of an API key, a token or a certificate.
  struct Credential {
    std::shared_ptr<const ApiKey> key;      // null: it is none
    const RequestTenant* tenant = nullptr;  // null: none of the file
    double expires = never_expires;         // seconds since 1970, or one of the above
  };
  static bool counts(const Credential& credential) {
    return credential.tenant != nullptr && unix_seconds() < credential.expires;
  }
  struct SeenKey {
    WideHash key_hash;
    Credential credential;
  };

  const RequestTenant* named_by_proxy(const Request& request) const;
  const Credential* credential_of(const Request& request);
  const Credential& find(std::string_view key);
  const Credential& find_certificate(const RequestIdentity& identity);
  template <class LookUp>
  const Credential& find(const WideHash& key_hash, const LookUp& look_up);
  Credential look_up(std::string_view key) const;
  Credential of_token(std::string_view token) const;
  Credential of_certificate(const CertificateNames& certificate) const;
  const RequestTenant* holder_of(std::string_view name) const;
  /// True if the client's certificate could be a tenant's.
  bool has_certificate(const RequestIdentity& identity) const {
    return !of_certificates_.empty() && identity.certificate_names != nullptr;
  }

  const std::vector<ListenerConfig>& listeners_;
  bool named_by_proxies_;
  std::map<std::string_view, RequestTenant> tenants_;                         // by name
  std::map<std::string, const RequestTenant*, std::less<>> of_certificates_;  // by name
  std::shared_ptr<const KeyTable> keys_;
  std::vector<const RequestTenant*> of_keys_;  // by KeyTable::Key::tenant; null: not in the file
  std::shared_ptr<const TokenIssuers> issuers_;
  const std::uint64_t seed_;
  const std::uint64_t certificate_seed_;  // of the hashes of certificates, which no key has
  std::vector<SeenKey> seen_keys_;        // by key_hash
  Credential unknown_;                    // the last one that got no place there
};

}  // namespace evenkeel
