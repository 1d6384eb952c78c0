#include "proxy/tenants.h"

#include <algorithm>
#include <optional>

#include "evenkeel/base/hex.h"
#include "evenkeel/base/rng.h"
#include "evenkeel/filter/forwarding_headers.h"

namespace evenkeel {
namespace {

constexpr std::size_t max_seen_keys = 1024;

/// REQUIRES: 64 hexadecimal digits, as in every loaded file.
Sha256 from_hexadecimal(std::string_view text) {
  Sha256 hash{};
  for (std::size_t i = 0; i < hash.size(); ++i) {
    const int value = hex_value(text[2 * i]) * 16 + hex_value(text[2 * i + 1]);
    hash[i] = static_cast<std::uint8_t>(value);
  }
  return hash;
}

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

Tenants::Tenants(const Config& config, LabelUses& label_uses)
    : listeners_(config.listeners),
      named_by_proxies_(std::any_of(
          config.listeners.begin(), config.listeners.end(),
          [](const ListenerConfig& listener) { return !listener.tenant_header.empty(); })),
      seed_(random_seed()),
      seen_keys_(max_seen_keys) {
  std::uint32_t number = 0;
  for (const TenantConfig& each : config.tenants) {
    const auto [tenant, is_new] =
        tenants_.emplace(each.name, RequestTenant{.name = each.name,
                                                  .number = ++number,
                                                  .index = label_uses.tenant(each.name),
                                                  .weight = each.weight,
                                                  .max_priority = each.priority});
    for (const std::string& hash : each.keys_sha256)
      by_key_hash_.emplace(from_hexadecimal(hash), &tenant->second);
  }
}

void Tenants::identify(Request& request) {
  // A tenant must not shed its limit by leaving out its key.
  static constexpr RequestTenant none{.index = LabelIndex::other_tenant,
                                      .max_priority = Priority::standard};
  const RequestTenant* tenant = named_by_proxies_ ? named_by_proxy(request) : nullptr;
  if (tenant == nullptr) tenant = with_key_of(request);
  request.info.identity.tenant = tenant == nullptr ? none : *tenant;
}

const RequestTenant* Tenants::named_by_proxy(const Request& request) const {
  const ListenerConfig* const listener = trusting_listener(listeners_, request.info.identity);
  if (listener == nullptr || listener->tenant_header.empty()) return nullptr;
  const auto name = only_value(request.fields, listener->tenant_header);
  if (!name) return nullptr;
  const auto found = tenants_.find(*name);
  return found == tenants_.end() ? nullptr : &found->second;
}

/// A request may have a key for its backend too.
const RequestTenant* Tenants::with_key_of(const Request& request) {
  for (const Field& field : request.fields) {
    const std::string_view key = key_in(field);
    if (key.empty()) continue;
    if (const RequestTenant* tenant = with_key(key)) return tenant;
  }
  return nullptr;
}

const RequestTenant* Tenants::with_key(std::string_view key) {
  const WideHash key_hash = wide_hash_of(key, seed_);
  SeenKey& seen = seen_keys_[key_hash.low % seen_keys_.size()];
  if (seen.key_hash != key_hash) seen = {.key_hash = key_hash, .tenant = with_hash_of(key)};
  return seen.tenant;
}

const RequestTenant* Tenants::with_hash_of(std::string_view key) const {
  const auto found = by_key_hash_.find(sha256(key));
  return found == by_key_hash_.end() ? nullptr : found->second;
}

}  // namespace evenkeel
