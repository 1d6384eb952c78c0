#include "evenkeel/filter/body_rules.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include "evenkeel/base/decimal.h"
#include "evenkeel/json/writer.h"

namespace evenkeel {
namespace {

constexpr auto limit_names = std::to_array<std::string_view>(
    {"max_tokens", "max_completion_tokens", "max_output_tokens", "n_predict"});
/// llama.cpp takes it on OpenAI's paths too, whatever the others say; other servers do not know it.
constexpr std::uint32_t n_predict = 3;
constexpr std::string_view cache_salt_name = "cache_salt";

bool names_limit(std::string_view name) {
  return std::ranges::find(limit_names, name) != limit_names.end();
}

void add_name(std::vector<std::string>& names, std::string_view name) {
  if (std::ranges::find(names, name) == names.end()) names.emplace_back(name);
}

void add_names(std::vector<std::string>& names, const BodyConfig& body) {
  for (const JsonMembers* members : {&body.defaults, &body.set}) {
    for (const auto& [name, json] : *members) add_name(names, name);
  }
}

bool concerns_tenants(const Config& config) {
  return std::ranges::any_of(config.tenants, &TenantConfig::changes_bodies);
}

bool has_changes(const Config& config) {
  const auto changes = [](const auto& each) { return !each.body.empty(); };
  return std::ranges::any_of(config.pools, changes) ||
         std::ranges::any_of(config.routes, changes) || concerns_tenants(config);
}

std::optional<BodyRules> rules_of(const RouteConfig& route,
                                  const std::vector<std::string>& members) {
  if (route.body.empty()) return std::nullopt;
  return BodyRules(route.body, members);
}

}  // namespace

std::vector<std::string> changed_members(const Config& config) {
  if (!has_changes(config)) return {};
  std::vector<std::string> names(limit_names.begin(), limit_names.end());
  for (const PoolConfig& pool : config.pools) add_names(names, pool.body);
  for (const RouteConfig& route : config.routes) add_names(names, route.body);
  const bool has_salts = std::ranges::any_of(
      config.tenants, [](const TenantConfig& each) { return !each.cache_salt.empty(); });
  if (has_salts) add_name(names, cache_salt_name);
  return names;
}

BodyRules::BodyRules(const BodyConfig& config, const std::vector<std::string>& members)
    : config_(&config), max_tokens_(config.max_tokens) {
  const auto sort = [&](const JsonMembers& given, std::vector<Value>& values, Limit& limit) {
    for (const auto& [name, json] : given) {
      if (names_limit(name)) {
        limit = {.value = parse_number<std::uint32_t>(json), .name = name};
        continue;
      }
      const auto found = std::ranges::find(members, name);
      values.push_back({.name = static_cast<std::uint32_t>(found - members.begin()), .json = json});
    }
  };
  sort(config.defaults, defaults_, default_limit_);
  sort(config.set, set_, set_limit_);
}

RouteBodyRules::RouteBodyRules(const Config& config)
    : members_(changed_members(config)),
      concerns_tenants_(concerns_tenants(config)),
      routes_(config.routes,
              [this](const RouteConfig& route) { return rules_of(route, members_); }) {}

const BodyConfig& RouteBodyRules::config_of(const RequestIdentity& identity) const {
  static const BodyConfig none;
  const BodyRules* const rules = find(identity);
  return rules == nullptr ? none : rules->config();
}

/// Takes the largest of several limits: servers differ in which one they take.
BodyChanges::BodyChanges(const InferenceInfo& info, const std::vector<std::string>& members)
    : info_(info), members_(members) {
  std::uint32_t largest = 0;
  bool is_known = true;
  for (const MemberPlace& place : info.places.members) {
    if (!is_limit(place.name) || !counts(place)) continue;
    ++limits_given_;
    is_known = is_known && place.number > 0;
    largest = std::max(largest, place.number);
  }
  if (limits_given_ > 0 && is_known) limit_ = largest;
}

void BodyChanges::apply(const BodyRules& rules) {
  for (const BodyRules::Value& each : rules.defaults_) {
    if (!has_member(each.name)) set(each.name, each.json);
  }
  for (const BodyRules::Value& each : rules.set_) set(each.name, each.json);
  for (const BodyRules::Limit* limit : {&rules.default_limit_, &rules.set_limit_}) {
    if (!limit->value) continue;
    limit_name_ = limit->name;
    const bool is_given = limits_given_ > 0 || limit_changed_;
    if (limit == &rules.set_limit_ || !is_given) set_limit(*limit->value);
  }
  if (rules.max_tokens_ > 0) limit_tokens(rules.max_tokens_);
}

void BodyChanges::set_cache_salt(std::string_view json) {
  const auto found = std::ranges::find(members_, cache_salt_name);
  set(static_cast<std::uint32_t>(found - members_.begin()), json);
}

void BodyChanges::limit_tokens(std::uint32_t max) {
  if (!limit_ || *limit_ > max) return set_limit(max);
  const bool exceeded = std::ranges::any_of(
      info_.places.members, [&](const MemberPlace& each) { return exceeds(each, max); });
  if (exceeded) others_limit_ = std::min(others_limit_.value_or(max), max);
}

void BodyChanges::set_limit(std::uint32_t value) {
  limit_ = others_limit_ = value;
  limit_changed_ = true;
}

/// True if servers read the member of this API as the most tokens. Chats have two names for it.
bool BodyChanges::is_limit(std::uint32_t name) const {
  if (name >= limit_names.size()) return false;  // they are the first of the names
  if (name == n_predict) return true;
  const std::string_view newest = info_.places.max_tokens_name;
  return members_[name] == newest ||
         (newest == "max_completion_tokens" && members_[name] == "max_tokens");
}

/// True if every server of the API takes the member for what its name says.
bool BodyChanges::counts(const MemberPlace& place) {
  return place.is_exact && place.name != n_predict;
}

/// True for a limit that only some servers take, and that is too high.
bool BodyChanges::exceeds(const MemberPlace& place, std::uint32_t max) const {
  return is_limit(place.name) && !counts(place) && (place.number == 0 || place.number > max);
}

bool BodyChanges::has_member(std::uint32_t name) const {
  const auto is_given = [name](const MemberPlace& each) {
    return each.name == name && each.is_exact;
  };
  return std::ranges::any_of(info_.places.members, is_given) ||
         std::ranges::find(values_, name, &BodyRules::Value::name) != values_.end();
}

void BodyChanges::set(std::uint32_t name, std::string_view json) {
  const auto found = std::ranges::find(values_, name, &BodyRules::Value::name);
  if (found != values_.end()) {
    found->json = json;
  } else {
    values_.push_back({.name = name, .json = json});
  }
}

void BodyChanges::add_to(std::vector<BodyEdit>& edits) const {
  std::string added;
  const auto add = [&added](std::string_view name, std::string_view json) {
    added.append(json_string(name)).append(":").append(json).append(",");
  };
  for (const BodyRules::Value& each : values_) {
    bool is_there = false;
    for (const MemberPlace& place : info_.places.members) {
      if (place.name != each.name) continue;
      is_there = is_there || place.is_exact;
      edits.push_back({.replaced = place.value, .by = std::string(each.json)});
    }
    if (!is_there) add(members_[each.name], each.json);
  }
  for (const MemberPlace& place : info_.places.members) {
    if (others_limit_ && exceeds(place, *others_limit_)) {
      edits.push_back({.replaced = place.value, .by = std::to_string(*others_limit_)});
    } else if (limit_changed_ && is_limit(place.name) && counts(place)) {
      edits.push_back({.replaced = place.value, .by = std::to_string(*limit_)});
    }
  }
  if (limit_changed_ && limits_given_ == 0) {
    std::string_view name = info_.places.max_tokens_name;
    // Of the two names that a chat may have, all servers but a few models of OpenAI's take this.
    if (name == "max_completion_tokens") name = limit_name_ == name ? limit_name_ : "max_tokens";
    add(name, std::to_string(*limit_));
  }
  if (added.empty() || !info_.places.object_begin) return;
  const std::uint64_t begin = *info_.places.object_begin;
  edits.push_back({.replaced = {begin, begin}, .by = std::move(added)});
}

}  // namespace evenkeel
