#include "import/nginx_keys.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "evenkeel/net/sha256.h"

namespace evenkeel::import {
namespace {

/// The key in what a field that carries one has; empty: the field carries none.
std::string_view key_in(std::string_view field, std::string_view value) {
  constexpr std::string_view bearer = "Bearer ";
  if (value.find('$') != value.npos || value.starts_with('~')) return {};
  if (field == "$http_authorization" && value.starts_with(bearer))
    return value.substr(bearer.size());
  const bool is_key_field = field == "$http_x_api_key" || field == "$http_api_key";
  return is_key_field ? value : std::string_view();
}

/// The three words of a comparison: `if ($a != "b")`. Fewer: it is another condition.
std::vector<std::string> comparison(const NginxDirective& condition) {
  std::vector<std::string> words(condition.words.begin() + 1, condition.words.end());
  if (words.size() < 3 || !words.front().starts_with('(') || !words.back().ends_with(')'))
    return {};
  words.front().erase(0, 1);
  words.back().pop_back();
  if (words.back().empty()) words.pop_back();
  if (words.front().empty()) words.erase(words.begin());
  return words.size() == 3 ? words : std::vector<std::string>();
}

/// True if the block answers that a key is missing, and does nothing else.
bool only_refuses(const NginxDirective& condition) {
  const auto refuses = [](const NginxDirective& each) {
    return each.name() == "return" && (each.argument() == "401" || each.argument() == "403");
  };
  return std::ranges::any_of(condition.children, refuses) &&
         std::ranges::all_of(condition.children, [&](const NginxDirective& each) {
           return refuses(each) || each.name() == "add_header" || each.name() == "default_type";
         });
}

}  // namespace

NginxKeys::NginxKeys(Draft& draft, NginxDirective& root) : draft_(draft) { find_maps(root); }

void NginxKeys::find_maps(NginxDirective& block) {
  for (NginxDirective& each : block.children) {
    if (each.name() != "map") {
      find_maps(each);
      continue;
    }
    if (each.words.size() != 3) continue;
    Map map{.directive = &each, .standard = {}, .entries = {}};
    const bool is_plain = std::ranges::all_of(each.children, [&](const NginxDirective& entry) {
      if (entry.words.size() != 2) return false;
      if (entry.name() == "default") {
        map.standard = entry.argument();
        return true;
      }
      const std::string_view key = key_in(each.argument(), entry.name());
      map.entries.emplace_back(key, entry.argument());
      return !key.empty();
    });
    if (is_plain && !map.entries.empty()) maps_.try_emplace(each.words[2], std::move(map));
  }
}

std::optional<NginxKeys::Keys> NginxKeys::keys_in_map(std::string_view variable, bool is_equal,
                                                      std::string_view value) {
  const auto found = maps_.find(variable);
  if (found == maps_.end()) return std::nullopt;
  const auto refuses = [&](const std::string& text) { return (text == value) == is_equal; };
  if (!refuses(found->second.standard)) return std::nullopt;
  Keys keys;
  for (const auto& [key, text] : found->second.entries) {
    if (!refuses(text)) keys.insert(key);
  }
  found->second.directive->used = true;
  found->second.directive->children.clear();
  return keys;
}

std::optional<NginxKeys::Keys> NginxKeys::keys_of(const NginxDirective& condition,
                                                  const NginxScope& location) {
  const std::vector<std::string> words = comparison(condition);
  if (condition.name() != "if" || words.empty() || !only_refuses(condition)) return std::nullopt;
  const bool is_equal = words[1] == "=";
  if (!is_equal && words[1] != "!=") return std::nullopt;
  if (auto keys = keys_in_map(words[0], is_equal, words[2])) return keys;
  const std::string value = location.expanded(words[2]);
  const std::string_view key = key_in(words[0], value);
  if (is_equal || key.empty()) return std::nullopt;
  return Keys{std::string(key)};
}

std::vector<const NginxDirective*> NginxKeys::checks_of(const NginxScope& location) {
  std::vector<const NginxDirective*> found;
  for (const NginxScope* scope = &location; scope != nullptr; scope = scope->outer) {
    for (NginxDirective* each : scope->settings) {
      if (each->name() != "if") continue;
      const auto keys = keys_of(*each, *scope);
      if (!keys || keys->empty() || (!keys_.empty() && *keys != keys_)) continue;
      if (keys_.empty()) line_ = each->line;
      keys_ = *keys;
      each->used = true;
      for (NginxDirective& child : each->children) child.used = true;
      found.push_back(each);
    }
  }
  return found;
}

bool NginxKeys::tells_apart(std::string_view variable) {
  const auto found = maps_.find(variable);
  if (found == maps_.end() || !found->second.standard.empty()) return false;
  Keys keys;
  Keys values;
  for (const auto& [key, value] : found->second.entries) {
    keys.insert(key);
    values.insert(value);
  }
  const bool are_apart = keys == keys_ && values.size() == keys.size() && !values.contains("");
  if (are_apart) {
    found->second.directive->used = true;
    found->second.directive->children.clear();
  }
  return are_apart;
}

void NginxKeys::finish(const std::vector<std::vector<PlacedRoute>*>& routes) {
  if (keys_.empty()) return;
  TenantConfig tenant{.name = "clients"};
  for (const std::string& key : keys_)
    tenant.keys_sha256.push_back(fmt::format("{:02x}", fmt::join(sha256(key), "")));
  draft_.config.tenants.push_back(std::move(tenant));
  draft_.config.auth.emplace();
  draft_.note(line_, fmt::format("{} of tenant clients, by SHA-256; `evenkeel key create` makes "
                                 "others",
                                 keys_.size() == 1 ? "its key became the API key"
                                                   : "its keys became the API keys"));
  for (std::vector<PlacedRoute>* each : routes) {
    for (PlacedRoute& placed : *each) {
      std::optional<AuthRule>& rule = placed.route.auth;
      rule = rule ? std::nullopt : std::optional(AuthRule::off);
    }
  }
}

}  // namespace evenkeel::import
