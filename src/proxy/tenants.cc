#include "proxy/tenants.h"

#include <algorithm>
#include <chrono>
#include <optional>

#include "evenkeel/base/rng.h"
#include "evenkeel/filter/forwarding_headers.h"
#include "evenkeel/net/sha256.h"
#include "proxy/kept_plans.h"

namespace evenkeel {
namespace {

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

}  // namespace

Tenants::Tenants(const Config& config, LabelUses& label_uses, std::shared_ptr<const KeyTable> keys)
    : listeners_(config.listeners),
      named_by_proxies_(std::any_of(
          config.listeners.begin(), config.listeners.end(),
          [](const ListenerConfig& listener) { return !listener.tenant_header.empty(); })),
      seed_(random_seed()),
      seen_keys_(max_seen_keys) {
  std::uint32_t number = 0;
  for (const TenantConfig& each : config.tenants) {
    tenants_.emplace(each.name, RequestTenant{.name = each.name,
                                              .number = ++number,
                                              .index = label_uses.tenant(each.name),
                                              .weight = each.weight,
                                              .max_priority = each.priority,
                                              .models = &each.models});
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

void Tenants::identify(Request& request) {
  // A tenant must not shed its limit by leaving out its key.
  static constexpr RequestTenant none{.index = LabelIndex::other_tenant,
                                      .max_priority = Priority::standard};
  RequestTenant& identified = request.info.identity.tenant;
  if (const auto* named = named_by_proxies_ ? named_by_proxy(request) : nullptr) {
    identified = *named;
  } else if (const KeyTable::Key* const key = key_of(request)) {
    identified = *of_keys_[key->tenant];
    identified.key = key;
    keep_too(request.info.plan, keys_);
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
  CredentialState state = CredentialState::missing;
  for (const Field& field : request.fields) {
    const std::string_view text = key_in(field);
    if (text.empty()) continue;
    if (find(text) != nullptr) return CredentialState::expired;
    state = CredentialState::unknown;
  }
  return state;
}

/// The table may have changed since the request was identified: its key is known by its id too.
void Tenants::remove_credential(Request& request) {
  const ApiKey* const accepted = request.info.identity.tenant.key;
  if (accepted == nullptr) return;
  request.fields.remove_if([&](const Field& field) {
    const std::string_view text = key_in(field);
    if (text.empty()) return false;
    const KeyTable::Key* const key = find(text);
    return key == accepted || key_id_of(sha256(text)) == accepted->id;
  });
}

/// The first key of the request that counts: it may have one for its backend too.
const KeyTable::Key* Tenants::key_of(const Request& request) {
  for (const Field& field : request.fields) {
    const std::string_view text = key_in(field);
    if (text.empty()) continue;
    const KeyTable::Key* const key = find(text);
    if (counts(key)) return key;
  }
  return nullptr;
}

bool Tenants::counts(const KeyTable::Key* key) const {
  if (key == nullptr || of_keys_[key->tenant] == nullptr) return false;
  return !key->expires || !key->has_expired(std::chrono::system_clock::now());
}

/// Finds a key in the table, also one that has expired.
const KeyTable::Key* Tenants::find(std::string_view key) {
  const WideHash key_hash = wide_hash_of(key, seed_);
  SeenKey& seen = seen_keys_[key_hash.low % seen_keys_.size()];
  if (seen.key_hash != key_hash) seen = {.key_hash = key_hash, .key = keys_->find(sha256(key))};
  return seen.key;
}

}  // namespace evenkeel
