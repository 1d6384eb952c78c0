#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/forms.h"
#include "config/node.h"
#include "evenkeel/config/config.h"
#include "evenkeel/config/tree.h"

// The forms (forms.h) of values that are made of others.
namespace evenkeel::config_file {

// Names of the user's choice with texts; scalars of any type are taken as they are written.
struct TextMapForm {
  using Value = std::map<std::string, std::string>;
  static constexpr Shape shape = Shape::map;

  std::string_view what;                  // "a mapping of labels to values"
  TextForm::Check check_key;              // may be null
  TextForm::Check check_value = nullptr;  // may be null

  void read(const Node& node, Value& value) const;
  Tree tree(const Value& value, const Value* omit) const;
  Tree schema() const;
  std::string type() const { return "mapping of text to text"; }
  std::string range() const { return {}; }
  void add_reference_rows(ReferenceRows&, const std::string&) const {}
};

// Members of a JSON object. YAML's values are JSON's, but for null.
struct JsonMembersForm {
  using Value = JsonMembers;
  static constexpr Shape shape = Shape::map;

  void read(const Node& node, Value& value) const;
  Tree tree(const Value& value, const Value* omit) const;
  Tree schema() const;
  std::string type() const { return "mapping of members to values"; }
  std::string range() const { return {}; }
  void add_reference_rows(ReferenceRows&, const std::string&) const {}
};

// Writes a value; with `omits`, without the keys that have their defaults.
template <class Form>
Tree tree_of(const Form& form, const typename Form::Value& value, bool omits) {
  if constexpr (requires { form.tree_without_defaults(value); }) {
    if (omits) return form.tree_without_defaults(value);
  }
  return form.tree(value, nullptr);
}

// A list of values that are written alike.
template <class Item>
struct ListForm {
  using Value = std::vector<typename Item::Value>;
  static constexpr Shape shape = Shape::list;

  Item item;
  std::string_view what;  // "a list of backends"
  bool may_be_empty = true;

  void read(const Node& node, Value& value) const {
    const auto elements = node.elements(what, item_keys());
    if (!elements) return;
    if (elements->empty() && !may_be_empty) node.fail("is empty, at least one is needed");
    value.clear();
    for (const Node& element : *elements) {
      typename Item::Value read_value{};
      item.read(element, read_value);
      value.push_back(std::move(read_value));  // also a wrong one: indices stay those of the file
    }
  }

  static std::vector<KnownKey> item_keys() {
    if constexpr (requires { Item::known_keys(); }) return Item::known_keys();
    return {};
  }

  Tree tree(const Value& value, const Value* omit) const {
    Tree list = Tree::list();
    for (const auto& each : value) list.items.push_back(tree_of(item, each, omit != nullptr));
    return list;
  }

  Tree schema() const {
    Tree schema = Tree::map({{"type", Tree::text("array")}, {"items", item.schema()}});
    if (!may_be_empty) schema.put("minItems", Tree::raw("1"));
    return schema;
  }

  std::string type() const { return std::string{what.substr(what.find("list"))}; }
  std::string range() const { return may_be_empty ? "" : "at least one"; }
  void add_reference_rows(ReferenceRows& rows, const std::string& path) const {
    item.add_reference_rows(rows, path + "[]");
  }
};

// A list of scalars; a single one is a list of one.
template <class Item>
struct OneOrListForm : ListForm<Item> {
  using Value = typename ListForm<Item>::Value;
  static constexpr Shape shape = Shape::scalar_or_list;

  void read(const Node& node, Value& value) const {
    if (!node.is_scalar()) return ListForm<Item>::read(node, value);
    typename Item::Value only{};
    this->item.read(node, only);
    value = {std::move(only)};
  }
  // No empty list, which is not read back if the list must not be empty.
  Tree tree(const Value& value, const Value* omit) const {
    return value.empty() ? Tree{} : ListForm<Item>::tree(value, omit);
  }
  Tree schema() const {
    return Tree::map({{"anyOf", Tree::list({this->item.schema(), ListForm<Item>::schema()})}});
  }
  std::string type() const { return this->item.type() + " or list of " + this->item.type() + "s"; }
};
using TextOrListForm = OneOrListForm<TextForm>;
using RatesForm = OneOrListForm<RateForm>;
inline const RatesForm rates{{RateForm{}, "a list of rates"}};
inline const RatesForm rates_of_money{{RateForm{.is_money = true}, "a list of rates"}};

// A list of mappings; a single mapping is a list of one.
template <class Item>
struct MapOrListForm : ListForm<Item> {
  using Value = typename ListForm<Item>::Value;
  static constexpr Shape shape = Shape::map_or_list;

  void read(const Node& node, Value& value) const {
    if (!node.is_map()) return ListForm<Item>::read(node, value);
    this->item.read(node, value.emplace_back());
  }
  Tree tree(const Value& value, const Value* omit) const {
    if (value.empty()) return Tree{};
    if (value.size() > 1) return ListForm<Item>::tree(value, omit);
    return tree_of(this->item, value.front(), omit != nullptr);
  }
  Tree schema() const {
    return Tree::map({{"anyOf", Tree::list({this->item.schema(), ListForm<Item>::schema()})}});
  }
  std::string type() const { return "mapping or list of mappings"; }
  void add_reference_rows(ReferenceRows& rows, const std::string& path) const {
    this->item.add_reference_rows(rows, path);
  }
};

EnumForm<log::Level> level_form();

// Levels by the names of subsystems.
struct LogLevelsForm {
  using Value = std::map<log::Subsystem, log::Level>;
  static constexpr Shape shape = Shape::map;

  void read(const Node& node, Value& value) const;
  Tree tree(const Value& value, const Value* omit) const;
  Tree schema() const;
  std::string type() const { return "mapping of subsystems to levels"; }
  std::string range() const;
  void add_reference_rows(ReferenceRows&, const std::string&) const {}
};

// Selects the functions of a struct in fields.h:
//   each_key(Of<T>, visit)            calls `visit(key, member, form)` for each of its keys,
//   prepare(Of<T>, value)             sets what the file may leave out, before it is read,
//   finish(Of<T>, node, value)        checks the keys together, and completes the value,
//   derive(Of<T>, defaults, value)    sets the defaults that depend on other keys,
//   extend_schema(Of<T>, schema)      adds what the keys alone do not say.
// A struct needs only the first.
template <class T>
struct Of {};

inline constexpr std::string_view required = "required";

// One key of a struct.
struct Key {
  std::string_view name;
  std::string_view doc;
  std::string_view default_text{};  // `required`, or for the reference; empty: the value itself
  // The values of the key `name` with which the struct has this key; empty: all.
  std::vector<std::string_view> variants{};

  bool is_required() const { return default_text == required; }
  bool is_of(std::string_view variant) const;
  // The sentence, after the variants that have the key.
  std::string full_doc() const;
};

// The condition of a schema under which an object has a key of these variants.
Tree schema_of_variants(const std::vector<std::string_view>& variants);

// `Table`: selects the keys, where a struct has fewer of them in some place.
template <class T, class Table = T>
struct StructForm {
  using Value = T;
  static constexpr Shape shape = Shape::map;

  static const std::vector<KnownKey>& known_keys() {
    static const std::vector<KnownKey> keys = [] {
      std::vector<KnownKey> list;
      each_key(Of<Table>{}, [&](const Key& key, auto, const auto& form) {
        list.push_back({key.name, form.shape, key.is_required()});
      });
      return list;
    }();
    return keys;
  }

  void read(Node node, T& value) const {
    if (!node.match_keys(known_keys())) return;
    if constexpr (requires { prepare(Of<Table>{}, value); }) prepare(Of<Table>{}, value);
    each_key(Of<Table>{}, [&](const Key& key, auto member, const auto& form) {
      if (!has_key(value, key)) return node.refuse_key(key.name, key.variants);
      if (const auto child = node.child(key.name)) form.read(*child, value.*member);
    });
    if constexpr (requires { finish(Of<Table>{}, node, value); }) finish(Of<Table>{}, node, value);
  }

  static bool has_key(const T& value, const Key& key) {
    if constexpr (requires { value.name; }) return key.is_of(value.name);
    return true;
  }

  // The defaults of a struct that holds this.
  static T defaults_for(const T& value) {
    T defaults{};
    if constexpr (requires { derive(Of<Table>{}, defaults, value); })
      derive(Of<Table>{}, defaults, value);
    return defaults;
  }

  Tree tree(const T& value, const T* omit) const {
    Tree map = Tree::map();
    each_key(Of<Table>{}, [&](const Key& key, auto member, const auto& form) {
      if (omit && !key.is_required() && value.*member == omit->*member) return;
      if (!has_key(value, key)) return;
      Tree written = form.tree(value.*member, omit ? &(omit->*member) : nullptr);
      if (written.kind == Tree::Kind::nothing) return;
      map.put(std::string{key.name}, std::move(written));
    });
    return map;
  }

  Tree tree_without_defaults(const T& value) const {
    const T defaults = defaults_for(value);
    return tree(value, &defaults);
  }

  Tree schema() const {
    Tree properties = Tree::map();
    Tree dependent = Tree::map();
    std::vector<std::string> names;  // of the required keys
    const T defaults{};
    each_key(Of<Table>{}, [&](const Key& key, auto member, const auto& form) {
      Tree property = Tree::map({{"description", Tree::text(key.full_doc())}});
      const Tree rest = form.schema();
      for (std::size_t i = 0; i < rest.keys.size(); ++i) {
        property.put(rest.keys[i].name, rest.items[i]);
      }
      Tree value = form.tree(defaults.*member, nullptr);
      const bool has_default = value.is_scalar() && !value.scalar.empty();
      if (key.default_text.empty() && has_default) {
        property.put("default", std::move(value));
      }
      properties.put(std::string{key.name}, std::move(property));
      if (key.is_required()) names.emplace_back(key.name);
      if (!key.variants.empty())
        dependent.put(std::string{key.name}, schema_of_variants(key.variants));
    });
    Tree schema =
        Tree::map({{"type", Tree::text("object")}, {"additionalProperties", Tree::raw("false")}});
    if (!names.empty()) schema.put("required", Tree::list_of_text(names));
    schema.put("properties", std::move(properties));
    if (!dependent.items.empty()) schema.put("dependentSchemas", std::move(dependent));
    if constexpr (requires { extend_schema(Of<Table>{}, schema); })
      extend_schema(Of<Table>{}, schema);
    return schema;
  }

  std::string type() const { return "mapping"; }
  std::string range() const { return {}; }

  void add_reference_rows(ReferenceRows& rows, const std::string& path) const {
    const T defaults{};
    each_key(Of<Table>{}, [&](const Key& key, auto member, const auto& form) {
      const std::string full_path =
          path.empty() ? std::string{key.name} : path + "." + std::string{key.name};
      std::string default_text{key.default_text};
      if (default_text.empty()) {
        const Tree value = form.tree(defaults.*member, nullptr);
        if (value.is_scalar() && !value.scalar.empty()) default_text = "`" + value.scalar + "`";
      }
      rows.push_back({full_path, form.type(), default_text, form.range(), key.full_doc()});
      form.add_reference_rows(rows, full_path);
    });
  }
};

// A value that may be absent as a whole.
template <class Form>
struct OptionalForm {
  using Value = std::optional<typename Form::Value>;
  static constexpr Shape shape = Form::shape;

  Form form;

  void read(const Node& node, Value& value) const { form.read(node, value.emplace()); }
  Tree tree(const Value& value, const Value* omit) const {
    return value ? tree_of(form, *value, omit != nullptr) : Tree{};
  }
  Tree schema() const { return form.schema(); }
  std::string type() const { return form.type(); }
  std::string range() const { return form.range(); }
  void add_reference_rows(ReferenceRows& rows, const std::string& path) const {
    form.add_reference_rows(rows, path);
  }
};

// A mapping, or `off`.
struct AffinityForm : OptionalForm<StructForm<AffinityConfig>> {
  static constexpr Shape shape = Shape::scalar_or_map;

  void read(const Node& node, Value& value) const;
  Tree tree(const Value& value, const Value* omit) const;
  Tree schema() const;
  std::string type() const { return "`off` or a mapping"; }
};

// A mapping, or just the value of its required key: a backend is its address, a picker its name.
template <class T, auto member, class Scalar>
struct ShorthandForm : StructForm<T> {
  static constexpr Shape shape = Shape::scalar_or_map;

  Scalar scalar;              // of that key
  std::string_view expected;  // "an address, or a mapping with one"

  void read(const Node& node, T& value) const {
    if (node.is_map()) return StructForm<T>::read(node, value);
    if (node.is_scalar()) return scalar.read(node, value.*member);
    node.fail_expected(expected);
  }
  Tree tree(const T& value, const T* omit) const {
    return omit ? tree_without_defaults(value) : shortened(StructForm<T>::tree(value, nullptr));
  }
  Tree tree_without_defaults(const T& value) const {
    return shortened(StructForm<T>::tree_without_defaults(value));
  }
  Tree schema() const {
    return Tree::map({{"anyOf", Tree::list({scalar.schema(), StructForm<T>::schema()})}});
  }
  std::string type() const { return scalar.type() + " or mapping"; }
  std::string range() const { return scalar.range(); }

  static Tree shortened(Tree map) { return map.items.size() == 1 ? map.items[0] : map; }
};

// The pool that another one or a route refers to. None is not written.
template <class T>
struct PoolReferenceForm : ShorthandForm<T, &T::pool, TextForm> {
  using Base = ShorthandForm<T, &T::pool, TextForm>;

  Tree tree(const T& value, const T* omit) const {
    return value.pool.empty() ? Tree{} : Base::tree(value, omit);
  }
};
using FallbackForm = PoolReferenceForm<FallbackConfig>;
using MirrorForm = PoolReferenceForm<MirrorConfig>;
using BackendForm = ShorthandForm<BackendConfig, &BackendConfig::address, AddressForm>;

// The backends of a pool. An empty list is not read back, and is not written.
struct BackendsForm : ListForm<BackendForm> {
  Tree tree(const Value& value, const Value* omit) const {
    return value.empty() ? Tree{} : ListForm<BackendForm>::tree(value, omit);
  }
};

// `pool: x` as a route's only target, and `split: {x: 95, y: 5}`: two keys for one member, of which
// one is written; or both, for parts of one pool: `pool` is read first.
struct SingleTargetForm : ScalarForm {
  using Value = std::vector<RouteTarget>;

  void read(const Node& node, Value& value) const;
  Tree tree(const Value& value, const Value*) const;
  Tree schema() const;
  std::string type() const { return "text"; }
};

struct SplitForm {
  using Value = std::vector<RouteTarget>;
  static constexpr Shape shape = Shape::map;

  void read(const Node& node, Value& value) const;
  Tree tree(const Value& value, const Value*) const;
  Tree schema() const;
  std::string type() const { return "mapping of pools or labels to shares"; }
  std::string range() const { return share.range(); }
  void add_reference_rows(ReferenceRows&, const std::string&) const {}

  static constexpr WholeNumber share{0, 10'000};
};

}  // namespace evenkeel::config_file
