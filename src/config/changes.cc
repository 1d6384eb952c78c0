#include "evenkeel/config/changes.h"

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <unordered_map>

#include "config/fields.h"
#include "evenkeel/config/tree.h"

namespace evenkeel {
namespace config_file {
namespace {

// A list whose items have names: the word for an item, and the key that identifies it.
struct NamedList {
  std::string_view path;  // of the list, below the named item that it belongs to
  std::string_view noun;
  std::string_view key;
};

constexpr NamedList named_lists[] = {{"listeners", "listener", "name"},
                                     {"pools", "pool", "name"},
                                     {"routes", "route", "name"},
                                     {"tenants", "tenant", "name"},
                                     {"backends", "backend", "address"}};

const NamedList* find_named_list(std::string_view path) {
  const auto* const found =
      std::ranges::find_if(named_lists, [&](const NamedList& each) { return each.path == path; });
  return found == std::end(named_lists) ? nullptr : found;
}

const Tree* find_key(const Tree& map, std::string_view name) {
  for (std::size_t i = 0; i < map.keys.size(); ++i) {
    if (map.keys[i].name == name) return &map.items[i];
  }
  return nullptr;
}

// False of two pickers: their settings are not to be compared.
bool is_of_same_name(const Tree& before, const Tree& after) {
  const Tree* const a = find_key(before, "name");
  const Tree* const b = find_key(after, "name");
  return a == nullptr || b == nullptr || a->scalar == b->scalar;
}

// The name of each item; a name that repeats, as those of routes may, gets a number.
std::vector<std::string> names_of(const Tree& list, std::string_view key) {
  std::vector<std::string> names;
  std::unordered_map<std::string, int> seen;
  for (const Tree& item : list.items) {
    const Tree* value = find_key(item, key);
    std::string name = value == nullptr ? std::string() : value->scalar;
    const int count = ++seen[name];
    if (count > 1) name += " (" + std::to_string(count) + ")";
    names.push_back(std::move(name));
  }
  return names;
}

// A value on one line, in the file's notation.
std::string value_text(const Tree* tree) {
  if (tree == nullptr || tree->kind == Tree::Kind::nothing) return "unset";
  if (tree->is_scalar()) return tree->scalar;
  const bool is_map = tree->kind == Tree::Kind::map;
  std::string text(1, is_map ? '{' : '[');
  for (std::size_t i = 0; i < tree->items.size(); ++i) {
    if (i > 0) text += ", ";
    if (is_map) text += tree->keys[i].name + ": ";
    text += value_text(&tree->items[i]);
  }
  return text + (is_map ? '}' : ']');
}

// Where two trees are compared: the named items that contain them ("pool chat: "), and the path
// below the innermost of these ("limits.queue").
struct Position {
  std::string owner;
  std::string path;

  Position inside(const std::string& key) const {
    return {owner, path.empty() ? key : path + "." + key};
  }
  Position item(std::string_view noun, const std::string& name) const {
    return {owner + std::string(noun) + " " + name + ": ", {}};
  }
};

class Comparison {
 public:
  void compare(const Position& at, const Tree* before, const Tree* after);
  std::vector<std::string> take() { return std::move(lines_); }

 private:
  void compare_maps(const Position& at, const Tree& before, const Tree& after);
  void compare_lists(const Position& at, const NamedList& list, const Tree& before,
                     const Tree& after);

  std::vector<std::string> lines_;
};

void Comparison::compare(const Position& at, const Tree* before, const Tree* after) {
  if (before != nullptr && after != nullptr) {
    if (*before == *after) return;
    if (before->kind == Tree::Kind::map && after->kind == Tree::Kind::map &&
        is_of_same_name(*before, *after)) {
      return compare_maps(at, *before, *after);
    }
    if (const NamedList* list = find_named_list(at.path)) {
      return compare_lists(at, *list, *before, *after);
    }
  }
  lines_.push_back(at.owner + at.path + ": " + value_text(before) + " -> " + value_text(after));
}

void Comparison::compare_maps(const Position& at, const Tree& before, const Tree& after) {
  for (std::size_t i = 0; i < after.keys.size(); ++i) {
    const std::string& key = after.keys[i].name;
    compare(at.inside(key), find_key(before, key), &after.items[i]);
  }
  for (std::size_t i = 0; i < before.keys.size(); ++i) {
    const std::string& key = before.keys[i].name;
    if (find_key(after, key) == nullptr) compare(at.inside(key), &before.items[i], nullptr);
  }
}

void Comparison::compare_lists(const Position& at, const NamedList& list, const Tree& before,
                               const Tree& after) {
  const std::vector<std::string> old_names = names_of(before, list.key);
  const std::vector<std::string> new_names = names_of(after, list.key);
  std::unordered_map<std::string_view, const Tree*> removed;
  for (std::size_t i = 0; i < old_names.size(); ++i) removed[old_names[i]] = &before.items[i];

  std::vector<std::string_view> kept;
  for (std::size_t i = 0; i < new_names.size(); ++i) {
    const Position item = at.item(list.noun, new_names[i]);
    const auto old_item = removed.find(new_names[i]);
    if (old_item == removed.end()) {
      lines_.push_back(item.owner + "added");
      continue;
    }
    compare(item, old_item->second, &after.items[i]);
    removed.erase(old_item);
    kept.push_back(new_names[i]);
  }

  std::vector<std::string_view> kept_before;
  for (const std::string& name : old_names) {
    if (removed.contains(name)) {
      lines_.push_back(at.item(list.noun, name).owner + "removed");
    } else {
      kept_before.push_back(name);
    }
  }
  if (kept != kept_before) lines_.push_back(at.owner + at.path + ": order changed");
}

// What a pool allocates in full when it is built.
struct PoolTables {
  std::uint64_t index_bytes = 0;
  std::uint64_t affinity_bytes = 0;
};

PoolTables tables_of(const PoolConfig& pool) {
  constexpr std::uint64_t bytes_per_session = 18;
  PoolTables tables;
  if (pool.picker.has_scheduler()) tables.index_bytes = pool.picker.index_bytes;
  if (pool.affinity) tables.affinity_bytes = bytes_per_session * pool.affinity->max_sessions;
  return tables;
}

}  // namespace
}  // namespace config_file

std::vector<std::string> describe_changes(const Config& before, const Config& after) {
  using namespace config_file;
  if (before == after) return {};
  const StructForm<Config> form;
  const Tree old_tree = form.tree(before, nullptr);
  const Tree new_tree = form.tree(after, nullptr);
  Comparison comparison;
  comparison.compare({}, &old_tree, &new_tree);
  return comparison.take();
}

std::uint64_t added_table_bytes(const Config* before, const Config& after) {
  std::unordered_map<std::string_view, config_file::PoolTables> former;
  if (before != nullptr) {
    for (const PoolConfig& pool : before->pools) former[pool.name] = config_file::tables_of(pool);
  }
  std::uint64_t sum = 0;
  for (const PoolConfig& pool : after.pools) {
    const config_file::PoolTables tables = config_file::tables_of(pool);
    const config_file::PoolTables& same = former[pool.name];
    if (tables.index_bytes != same.index_bytes) sum += tables.index_bytes;
    if (tables.affinity_bytes != same.affinity_bytes) sum += tables.affinity_bytes;
  }
  return sum;
}

std::vector<std::string> takeover_changes(const Config& before, const Config& after) {
  std::vector<std::string> keys;
  const auto is_off = [](const Config& config) { return config.access_log.path == "off"; };
  if (before.workers != after.workers) keys.emplace_back("workers");
  if (is_off(before) != is_off(after)) keys.emplace_back("access_log");
  if (before.usage.is_on() != after.usage.is_on()) keys.emplace_back("usage");
  if (before.audit != after.audit) keys.emplace_back("audit");
  return keys;
}

}  // namespace evenkeel
