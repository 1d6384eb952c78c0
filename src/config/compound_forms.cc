#include "config/compound_forms.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

#include "config/fields.h"
#include "config/text.h"
#include "evenkeel/base/decimal.h"
#include "evenkeel/base/log.h"
#include "evenkeel/config/spelling.h"
#include "evenkeel/json/value.h"

namespace evenkeel::config_file {
namespace {

// The longest name that is looked for in bodies, in bytes.
constexpr std::size_t max_member_name = 64;

const Words only_off{"affinity", {"off"}};

bool counts_tokens(std::string_view member) {
  return member == "max_tokens" || member == "max_completion_tokens" ||
         member == "max_output_tokens";
}

// The value as JSON. Nothing: it is none, and that is reported.
std::optional<JsonValue> read_json(const Node& node) {
  if (node.is_map()) {
    JsonValue object(JsonValue::Object{});
    const auto entries = node.entries("a mapping");
    for (const auto& [name, entry] : *entries) {
      auto member = read_json(entry);
      if (!member) return std::nullopt;
      object.add(name, std::move(*member));
    }
    return object;
  }
  if (node.is_list()) {
    JsonValue::List list;
    const auto elements = node.elements("a list");
    for (const Node& element : *elements) {
      auto item = read_json(element);
      if (!item) return std::nullopt;
      list.push_back(std::move(*item));
    }
    return JsonValue(std::move(list));
  }
  const auto scalar = node.scalar("a value: text, a number, true, false, a list or a mapping");
  if (!scalar) return std::nullopt;
  const PlainType type = node.is_quoted() ? PlainType::text : type_of_plain(scalar->text);
  if (type == PlainType::text) return JsonValue(scalar->text);
  auto json = parse_json(scalar->text);
  if (json && !json->is_null()) return std::move(*json);
  node.fail("is not a value of JSON",
            "write numbers as JSON does: 0.5, 100, 1e-3; or quote a text");
  return std::nullopt;
}

Tree tree_of_json(const JsonValue& value) {
  if (value.is_text()) return Tree::text(value.text());
  if (value.is_array()) {
    Tree list = Tree::list();
    for (const JsonValue& item : value.items()) list.items.push_back(tree_of_json(item));
    return list;
  }
  if (!value.is_object()) return Tree::raw(json_text(value));
  Tree map = Tree::map();
  for (const auto& [name, member] : value.members()) map.put(name, tree_of_json(member));
  return map;
}

bool is_only_target(const std::vector<RouteTarget>& targets) {
  return targets.size() == 1 && targets[0] == RouteTarget{.pool = targets[0].pool};
}

BackendLabels read_labels(const std::string& selector, const Node& entry) {
  if (auto labels = labels_of(selector)) return std::move(*labels);
  entry.fail(fmt::format("expected LABEL=VALUE, such as version=v7, found '{}'", selector),
             "beside 'pool', a split names backends of that pool by their labels; to split "
             "over pools, remove 'pool'");
  return {};
}

}  // namespace

bool Key::is_of(std::string_view variant) const {
  return variants.empty() || variant.empty() ||
         std::ranges::find(variants, variant) != variants.end();
}

std::string Key::full_doc() const {
  return variants.empty() ? std::string{doc}
                          : fmt::format("`{}`: {}", fmt::join(variants, "`, `"), doc);
}

Tree schema_of_variants(const std::vector<std::string_view>& variants) {
  Tree name =
      Tree::map({{"pattern", Tree::text(fmt::format("^({})$|\\$\\{{", fmt::join(variants, "|")))}});
  return Tree::map({{"properties", Tree::map({{"name", std::move(name)}})}});
}

void TextMapForm::read(const Node& node, Value& value) const {
  const auto entries = node.entries(what);
  if (!entries) return;
  value.clear();
  for (const auto& [name, entry] : *entries) {
    std::string key = name;
    if (check_key) {
      if (auto problem = check_key(key)) entry.fail(problem->message, problem->help);
    }
    const auto scalar = entry.scalar("a text");
    if (!scalar) continue;
    std::string text = scalar->text;
    if (check_value) {
      if (auto problem = check_value(text)) entry.fail(problem->message, problem->help);
    }
    if (!value.emplace(key, std::move(text)).second) {
      entry.fail(fmt::format("duplicate key '{}'", key));
    }
  }
}

Tree TextMapForm::tree(const Value& value, const Value*) const {
  Tree map = Tree::map();
  for (const auto& [key, text] : value) map.put(key, Tree::text(text));
  return map;
}

Tree TextMapForm::schema() const {
  Tree values = Tree::map({{"type", Tree::list_of_text({"string", "number", "boolean"})}});
  return Tree::map({{"type", Tree::text("object")}, {"additionalProperties", std::move(values)}});
}

void JsonMembersForm::read(const Node& node, Value& value) const {
  const auto entries = node.entries("a mapping of members to values");
  if (!entries) return;
  value.clear();
  for (const auto& [name, entry] : *entries) {
    constexpr auto own = std::to_array<std::string_view>({"model", "stream", "stream_options"});
    if (std::ranges::find(own, name) != own.end()) {
      entry.fail(fmt::format("'{}' cannot be changed here", name),
                 name == "model" ? "see `model` and `model_names` of pools"
                                 : "the client decides how it is answered");
      continue;
    }
    if (name.empty() || name.size() > max_member_name) {
      entry.fail(fmt::format("the name has more than {} bytes, or none", max_member_name));
      continue;
    }
    const auto json = read_json(entry);
    if (!json) continue;
    std::string text = json_text(*json);
    if (counts_tokens(name) && parse_number<std::uint32_t>(text).value_or(0) == 0) {
      entry.fail("expected a whole number of tokens, 1 or more");
      continue;
    }
    value[name] = std::move(text);
  }
}

Tree JsonMembersForm::tree(const Value& value, const Value*) const {
  Tree map = Tree::map();
  for (const auto& [name, text] : value) {
    const auto json = parse_json(text);
    if (json) map.put(name, tree_of_json(*json));
  }
  return map;
}

Tree JsonMembersForm::schema() const {
  Tree names = Tree::map(
      {{"not", Tree::map({{"enum", Tree::list_of_text({"model", "stream", "stream_options"})}})}});
  return Tree::map({{"type", Tree::text("object")}, {"propertyNames", std::move(names)}});
}

EnumForm<log::Level> level_form() { return {"level", log::level_names()}; }

void LogLevelsForm::read(const Node& node, Value& value) const {
  const auto entries = node.entries("a mapping such as {health: debug}");
  if (!entries) return;
  value.clear();
  for (const auto& [name, entry] : *entries) {
    const auto subsystem = log::subsystem_of(name);
    if (!subsystem) {
      auto unknown = unknown_word("subsystem", name, log::subsystem_names());
      entry.fail(std::move(unknown.message), std::move(unknown.help));
      continue;
    }
    level_form().read(entry, value[*subsystem]);
  }
}

Tree LogLevelsForm::tree(const Value& value, const Value*) const {
  Tree map = Tree::map();
  for (const auto& [subsystem, level] : value) {
    map.put(std::string(log::to_string(subsystem)), level_form().tree(level, nullptr));
  }
  return map;
}

Tree LogLevelsForm::schema() const {
  Tree properties = Tree::map();
  for (const std::string_view name : log::subsystem_names()) {
    properties.put(std::string(name), level_form().schema());
  }
  return Tree::map({{"type", Tree::text("object")},
                    {"additionalProperties", Tree::raw("false")},
                    {"properties", std::move(properties)}});
}

std::string LogLevelsForm::range() const {
  return fmt::format("`{}`", fmt::join(log::subsystem_names(), "`, `"));
}

void AffinityForm::read(const Node& node, Value& value) const {
  if (node.is_map()) return OptionalForm::read(node, value);
  if (!node.is_scalar())
    return node.fail_expected("off, or a mapping such as {by: [header:x-session-id]}");
  if (only_off.read(node)) value = AffinityConfig{.by = {}, .mode = AffinityMode::off};
}

Tree AffinityForm::tree(const Value& value, const Value* omit) const {
  if (value && value->mode == AffinityMode::off) return Tree::text("off");
  return OptionalForm::tree(value, omit);
}

Tree AffinityForm::schema() const {
  return Tree::map({{"anyOf", Tree::list({only_off.schema(), OptionalForm::schema()})}});
}

void SingleTargetForm::read(const Node& node, Value& value) const {
  std::string pool;
  pool_name.read(node, pool);
  if (!pool.empty()) value = {RouteTarget{std::move(pool), RouteTarget{}.weight}};
}

Tree SingleTargetForm::tree(const Value& value, const Value*) const {
  const bool is_written = is_only_target(value) || (!value.empty() && !value[0].labels.empty());
  return is_written ? Tree::text(value[0].pool) : Tree{};
}

Tree SingleTargetForm::schema() const { return pool_name.schema(); }

void SplitForm::read(const Node& node, Value& value) const {
  const auto entries = node.entries("a mapping such as {stable: 95, canary: 5}");
  if (!entries) return;
  if (entries->empty()) node.fail("is empty, expected a mapping such as {stable: 95, canary: 5}");
  const std::string pool = value.empty() ? "" : value[0].pool;
  value.clear();
  for (const auto& [name, entry] : *entries) {
    const auto weight = share.read(entry);
    RouteTarget target{.pool = pool.empty() ? name : pool,
                       .weight = static_cast<std::uint32_t>(weight.value_or(1))};
    if (!pool.empty()) target.labels = read_labels(name, entry);
    value.push_back(std::move(target));
  }
}

Tree SplitForm::tree(const Value& value, const Value*) const {
  if (value.empty() || is_only_target(value)) return {};
  Tree map = Tree::map();
  for (const auto& target : value) {
    map.put(target.labels.empty() ? target.pool : selector_of(target.labels),
            Tree::raw(std::to_string(target.weight)));
  }
  return map;
}

Tree SplitForm::schema() const {
  return Tree::map({{"type", Tree::text("object")},
                    {"minProperties", Tree::raw("1")},
                    {"additionalProperties", share.schema()}});
}

}  // namespace evenkeel::config_file
