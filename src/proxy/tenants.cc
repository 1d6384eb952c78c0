#include "proxy/tenants.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <variant>

#include "evenkeel/base/clock.h"
#include "evenkeel/base/rng.h"
#include "evenkeel/filter/forwarding_headers.h"
#include "evenkeel/net/sha256.h"
#include "proxy/kept_plans.h"

namespace evenkeel {
namespace {

using Models = std::vector<std::string>;

constexpr std::size_t max_seen_keys = 1024;

/// Nothing if there are several: the first may be the client's own.
std::optional<std::string_view> only_value(const Fields& fields, std::string_view name) {
  std::optional<std::string_view> value;
  for (const Field& field : fields) {
    if (!equals_ignore_case(field.name(), name)) continue;
    if (value) return std::nullopt;
    value = field.value();
  }
  return value;
}

/// The API key that a field holds; empty: none.
std::string_view key_in(const Field& field) {
  constexpr std::string_view bearer = "bearer ";
  if (field.id == FieldId::authorization) {
    std::string_view value = field.value();
    if (!starts_with_ignore_case(value, bearer)) return {};
    value.remove_prefix(bearer.size());
    value.remove_prefix(std::min(value.find_first_not_of(' '), value.size()));
    return value;
  }
  if (field.id != FieldId::other) return {};
  const std::string_view name = field.name();
  const bool holds_key =
      equals_ignore_case(name, "x-api-key") || equals_ignore_case(name, "api-key");
  return holds_key ? field.value() : std::string_view();
}

/// True if a key has the form of a signed token: three parts, of which the first one is JSON in
/// Base64. No API key of ours has dots.
bool is_token(std::string_view key) {
  return key.starts_with("ey") && std::ranges::count(key, '.') == 2;
}

}  // namespace

Tenants::Tenants(const Config& config, LabelUses& label_uses, std::shared_ptr<const KeyTable> keys,
                 std::shared_ptr<const TokenIssuers> issuers)
    : listeners_(config.listeners),
      named_by_proxies_(std::any_of(
          config.listeners.begin(), config.listeners.end(),
          [](const ListenerConfig& listener) { return !listener.tenant_header.empty(); })),
      issuers_(std::move(issuers)),
      seed_(random_seed()),
      certificate_seed_(random_seed()),
      seen_keys_(max_seen_keys) {
  std::uint32_t number = 0;
  for (const TenantConfig& each : config.tenants) {
    const auto added =
        tenants_.emplace(each.name, RequestTenant{.name = each.name,
                                                  .number = ++number,
                                                  .index = label_uses.tenant(each.name),
                                                  .max_tokens = each.max_tokens,
                                                  .weight = each.weight,
                                                  .max_priority = each.priority,
                                                  .models = &each.models,
                                                  .cache_salt = each.cache_salt});
    for (const std::string& name : each.certificates)
      of_certificates_.emplace(name, &added.first->second);
  }
  adopt(keys != nullptr ? std::move(keys) : KeyTable::build(config.tenants, {}).table);
}

/// Requests count themselves among the owners of the keys, each worker's apart from the others'.
void Tenants::adopt(std::shared_ptr<const KeyTable> keys) {
  const KeyTable* const table = keys.get();
  const auto own = std::make_shared<std::shared_ptr<const KeyTable>>(std::move(keys));
  keys_ = std::shared_ptr<const KeyTable>(own, table);
  std::ranges::fill(seen_keys_, SeenKey{});
  of_keys_.clear();
  for (const std::string& name : keys_->tenant_names()) {
    const auto found = tenants_.find(name);
    of_keys_.push_back(found == tenants_.end() ? nullptr : &found->second);
  }
}

void Tenants::adopt(std::shared_ptr<const TokenIssuers> issuers) {
  issuers_ = std::move(issuers);
  std::ranges::fill(seen_keys_, SeenKey{});
}

void Tenants::identify(Request& request) {
  // A tenant must not shed its limit by leaving out its key.
  static constexpr RequestTenant none{.index = LabelIndex::other_tenant,
                                      .max_priority = Priority::standard};
  RequestTenant& identified = request.info.identity.tenant;
  if (const auto* named = named_by_proxies_ ? named_by_proxy(request) : nullptr) {
    identified = *named;
  } else if (const Credential* const credential = credential_of(request)) {
    identified = *credential->tenant;
    identified.key = credential->key.get();
    keep_too(request.info.plan, credential->key);
  } else {
    identified = none;
  }
}

const RequestTenant* Tenants::named_by_proxy(const Request& request) const {
  const ListenerConfig* const listener = trusting_listener(listeners_, request.info.identity);
  if (listener == nullptr || listener->tenant_header.empty()) return nullptr;
  const auto name = only_value(request.fields, listener->tenant_header);
  if (!name) return nullptr;
  const auto found = tenants_.find(*name);
  return found == tenants_.end() ? nullptr : &found->second;
}

CredentialState Tenants::state_of_keys(const Request& request) {
  CredentialState state =
      has_certificate(request.info.identity) ? CredentialState::unnamed : CredentialState::missing;
  for (const Field& field : request.fields) {
    const std::string_view text = key_in(field);
    if (text.empty()) continue;
    const Credential& credential = find(text);
    if (credential.tenant != nullptr || credential.expires == expired)
      return CredentialState::expired;
    const bool is_keyless = credential.expires == keyless;
    state = is_keyless ? CredentialState::unverifiable : CredentialState::unknown;
  }
  return state;
}

/// Removes whatever is a credential here. The table may have changed since the request was
/// identified: its key is known by its id too.
void Tenants::remove_credential(Request& request) {
  const ApiKey* const accepted = request.info.identity.tenant.key;
  request.fields.remove_if([&](const Field& field) {
    const std::string_view text = key_in(field);
    if (text.empty()) return false;
    return find(text).tenant != nullptr ||
           (accepted != nullptr && key_id_of(sha256(text)) == accepted->id);
  });
}

/// The first credential of the request that counts: it may have one for its backend too. What it
/// has of its own goes before what its connection has. Null: none.
const Tenants::Credential* Tenants::credential_of(const Request& request) {
  for (const Field& field : request.fields) {
    const std::string_view text = key_in(field);
    if (text.empty()) continue;
    const Credential& credential = find(text);
    if (counts(credential)) return &credential;
  }
  if (!has_certificate(request.info.identity)) return nullptr;
  const Credential& credential = find_certificate(request.info.identity);
  return counts(credential) ? &credential : nullptr;
}

/// Finds a key in the table, or verifies a token; also one that has expired.
const Tenants::Credential& Tenants::find(std::string_view key) {
  return find(wide_hash_of(key, seed_), [&] { return look_up(key); });
}

/// Finds the tenant of the client's certificate. REQUIRES: it has one.
const Tenants::Credential& Tenants::find_certificate(const RequestIdentity& identity) {
  return find(wide_hash_of(identity.certificate_hash, certificate_seed_),
              [&] { return of_certificate(*identity.certificate_names); });
}

template <class LookUp>
const Tenants::Credential& Tenants::find(const WideHash& key_hash, const LookUp& look_up) {
  SeenKey& seen = seen_keys_[key_hash.low % seen_keys_.size()];
  if (seen.key_hash == key_hash && seen.credential.expires != undecided) return seen.credential;
  const Credential found = look_up();
  // Keys that are wrong must not have right ones verified anew.
  const bool is_taken = seen.credential.tenant != nullptr && found.tenant == nullptr &&
                        unix_seconds() < seen.credential.expires;
  if (is_taken) return unknown_ = found;
  seen = {.key_hash = key_hash, .credential = found};
  return seen.credential;
}

Tenants::Credential Tenants::look_up(std::string_view key) const {
  const KeyTable::Key* const found = keys_->find(sha256(key));
  if (found == nullptr) return issuers_ != nullptr && is_token(key) ? of_token(key) : Credential();
  Credential credential{.key = {keys_, found}, .tenant = of_keys_[found->tenant]};
  if (found->expires)
    credential.expires = static_cast<double>(found->expires->time_since_epoch().count());
  return credential;
}

Tenants::Credential Tenants::of_token(std::string_view token) const {
  const auto verified = issuers_->verify(token, unix_seconds());
  const auto* const claims = std::get_if<JwtClaims>(&verified);
  if (claims == nullptr) {
    const JwtRefusal refusal = std::get<JwtRefusal>(verified);
    if (refusal == JwtRefusal::expired) return {.expires = expired};
    if (refusal == JwtRefusal::no_keys) return {.expires = keyless};
    // An unknown key is asked for again until it is fetched.
    const bool may_become_valid =
        refusal == JwtRefusal::not_yet_valid || refusal == JwtRefusal::unknown_key;
    return {.expires = may_become_valid ? undecided : never_expires};
  }
  for (const std::string& name : claims->tenants) {
    const auto found = tenants_.find(name);
    if (found == tenants_.end()) continue;
    const std::string owner = claims->issuer + "\n" + name + "\n" + claims->subject;
    auto key = std::make_shared<ApiKey>(ApiKey{.id = key_id_of(sha256(owner)),
                                               .name = claims->subject,
                                               .models = claims->models.value_or(Models())});
    // An empty list allows none.
    if (claims->models && key->models.empty()) key->models.emplace_back();
    return {.key = std::move(key), .tenant = &found->second, .expires = claims->expires};
  }
  return {};
}

/// The first of its names that a tenant has counts.
Tenants::Credential Tenants::of_certificate(const CertificateNames& certificate) const {
  for (const std::string& name : certificate.names) {
    const RequestTenant* const tenant = holder_of(name);
    if (tenant == nullptr) continue;
    auto key =
        std::make_shared<ApiKey>(ApiKey{.id = key_id_of(sha256(name)), .name = name, .models = {}});
    return {.key = std::move(key), .tenant = tenant, .expires = certificate.expires};
  }
  return {};
}

/// The tenant that has this name, else the one that has the longest beginning of it. Null: none.
const RequestTenant* Tenants::holder_of(std::string_view name) const {
  if (const auto exact = of_certificates_.find(name); exact != of_certificates_.end())
    return exact->second;
  for (auto end = name.rfind('/'); end != name.npos && end > 0; end = name.rfind('/', end - 1)) {
    const auto found = of_certificates_.find(std::string(name.substr(0, end + 1)) + '*');
    if (found != of_certificates_.end()) return found->second;
  }
  return nullptr;
}

}  // namespace evenkeel
