#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/node.h"
#include "config/tree.h"
#include "evenkeel/config/config.h"

// A form is one way to write a kind of value, e.g. "a duration within these bounds". It knows
//   Value     the type it becomes,
//   shape     what it looks like in YAML,
//   read      how to read it; reports what is wrong and then leaves the value alone,
//   tree      how to write it; given a default, parts that equal it may be left out,
//   schema    its JSON Schema,
//   type      its name in the reference, and `range` its bounds there ("" if none),
//   document  the keys inside it, if it has any.
// Fields (fields.h) put forms to keys; all that is read, checked, printed and documented follows.
namespace evenkeel::config_file {

// A line of the reference.
struct ReferenceRow {
  std::string path;
  std::string type;
  std::string default_text;
  std::string range;
  std::string doc;
};
using ReferenceRows = std::vector<ReferenceRow>;

// Why a form rejects a value, and what to write instead.
struct ValidationError {
  std::string message;
  std::string help;
};

// A form whose values have no keys inside.
struct ScalarForm {
  static constexpr Shape shape = Shape::scalar;
  void add_reference_rows(ReferenceRows&, const std::string&) const {}
  std::string range() const { return {}; }
};

// "30s", "500ms", "1.5h".
struct DurationForm : ScalarForm {
  using Value = milliseconds;
  milliseconds min{1};
  milliseconds max = std::chrono::hours{24};

  DurationForm(milliseconds min_value, milliseconds max_value) : min(min_value), max(max_value) {}
  DurationForm() = default;

  void read(const Node& node, Value& value) const;
  Tree tree(const Value& value, const Value* omit) const;
  Tree schema() const;
  std::string type() const { return "duration"; }
  std::string range() const;
};

// "512B", "32KiB", "1.5GiB".
struct SizeForm : ScalarForm {
  using Value = std::uint64_t;
  std::uint64_t min;
  std::uint64_t max;

  SizeForm(std::uint64_t min_value, std::uint64_t max_value) : min(min_value), max(max_value) {}

  void read(const Node& node, Value& value) const;
  Tree tree(const Value& value, const Value* omit) const;
  Tree schema() const;
  std::string type() const { return "size"; }
  std::string range() const;
};

// A whole number. Value is any unsigned or signed integer of at most 32 bits.
struct WholeNumber {
  std::int64_t min;
  std::int64_t max;

  std::optional<std::int64_t> read(const Node& node) const;
  Tree schema() const;
  std::string range() const;
};

template <class Integer>
struct IntegerForm : ScalarForm {
  using Value = Integer;
  WholeNumber number;

  IntegerForm(std::int64_t min, std::int64_t max) : number{min, max} {}

  void read(const Node& node, Value& value) const {
    if (const auto read_value = number.read(node)) value = static_cast<Integer>(*read_value);
  }
  Tree tree(const Value& value, const Value*) const { return Tree::raw(std::to_string(value)); }
  Tree schema() const { return number.schema(); }
  std::string type() const { return "whole number"; }
  std::string range() const { return number.range(); }
};

using CountForm = IntegerForm<std::uint32_t>;

struct RatioForm : ScalarForm {
  using Value = double;
  double min;
  double max;

  RatioForm(double min_value, double max_value) : min(min_value), max(max_value) {}

  void read(const Node& node, Value& value) const;
  Tree tree(const Value& value, const Value* omit) const;
  Tree schema() const;
  std::string type() const { return "number"; }
  std::string range() const;
};

struct FlagForm : ScalarForm {
  using Value = bool;

  void read(const Node& node, Value& value) const;
  Tree tree(const Value& value, const Value*) const { return Tree::raw(value ? "true" : "false"); }
  Tree schema() const;
  std::string type() const { return "true or false"; }
};

// Text that `check` may reject or normalise.
struct TextForm : ScalarForm {
  using Value = std::string;
  using Check = std::optional<ValidationError> (*)(std::string& value);

  std::string_view what;       // "a name"
  Check check;                 // may be null
  std::string_view pattern{};  // a regular expression for the schema, no stricter than `check`

  explicit TextForm(std::string_view what_it_is, Check check_it = nullptr,
                    std::string_view schema_pattern = {})
      : what(what_it_is), check(check_it), pattern(schema_pattern) {}

  void read(const Node& node, Value& value) const;
  // An empty text is the default and is never written.
  Tree tree(const Value& value, const Value*) const {
    return value.empty() ? Tree{} : Tree::text(value);
  }
  Tree schema() const;
  std::string type() const { return "text"; }
};

// One of a few words.
struct Words {
  std::string_view what;  // "picker"
  std::span<const std::string_view> names;

  std::optional<std::size_t> read(const Node& node) const;
  Tree schema() const;
  std::string range() const;
};

struct ChoiceForm : ScalarForm {
  using Value = std::string;
  Words words;

  ChoiceForm(std::string_view what, std::span<const std::string_view> names) : words{what, names} {}

  void read(const Node& node, Value& value) const {
    if (const auto index = words.read(node)) value = words.names[*index];
  }
  Tree tree(const Value& value, const Value*) const { return Tree::text(value); }
  Tree schema() const { return words.schema(); }
  std::string type() const { return "word"; }
  std::string range() const { return words.range(); }
};

// The names of an enumeration's values, in the order of the values.
template <class Enum>
struct EnumForm : ScalarForm {
  using Value = Enum;
  Words words;

  EnumForm(std::string_view what, std::span<const std::string_view> names) : words{what, names} {}

  void read(const Node& node, Value& value) const {
    if (const auto index = words.read(node)) value = static_cast<Enum>(*index);
  }
  Tree tree(const Value& value, const Value*) const {
    return Tree::text(std::string{words.names[static_cast<std::size_t>(value)]});
  }
  Tree schema() const { return words.schema(); }
  std::string type() const { return "word"; }
  std::string range() const { return words.range(); }
};

// An address to listen on, or of a backend.
struct AddressForm : ScalarForm {
  using Value = Address;
  using Parse = std::optional<Address> (*)(std::string_view text, std::string& why);

  Parse parse;
  std::string_view what;     // "an address such as 0.0.0.0:8080"
  std::string_view example;  // host and ':' to put before a bare port

  void read(const Node& node, Value& value) const;
  Tree tree(const Value& value, const Value*) const { return Tree::text(written(value)); }
  Tree schema() const;
  std::string type() const { return "address"; }

  static std::string written(const Address& address) {
    return (address.secure ? "https://" : "") + to_string(address);
  }
};

AddressForm listen_address();
AddressForm backend_address();
AddressForm name_server_address();

struct NetworkForm : ScalarForm {
  using Value = Network;

  void read(const Node& node, Value& value) const;
  Tree tree(const Value& value, const Value*) const { return Tree::text(value.text); }
  Tree schema() const;
  std::string type() const { return "network"; }
};

// "auto" (0) or how many.
struct WorkersForm : ScalarForm {
  using Value = unsigned;

  void read(const Node& node, Value& value) const;
  Tree tree(const Value& value, const Value*) const;
  Tree schema() const;
  std::string type() const { return "auto or whole number"; }
  std::string range() const { return number.range(); }

  static constexpr WholeNumber number{1, 1024};
};

// Names of the user's choice with texts; scalars of any type are taken as they are written.
struct TextMapForm {
  using Value = std::map<std::string, std::string>;
  static constexpr Shape shape = Shape::map;

  std::string_view what;      // "a mapping of labels to values"
  TextForm::Check check_key;  // may be null

  void read(const Node& node, Value& value) const;
  Tree tree(const Value& value, const Value* omit) const;
  Tree schema() const;
  std::string type() const { return "mapping of text to text"; }
  std::string range() const { return {}; }
  void add_reference_rows(ReferenceRows&, const std::string&) const {}
};

// A list; `or_one` takes a single scalar for a list of one.
template <class Item>
struct ListForm {
  using Value = std::vector<typename Item::Value>;
  static constexpr Shape shape = Shape::list;

  Item item;
  std::string_view what;  // "a list of backends"
  bool may_be_empty = true;

  void read(const Node& node, Value& value) const {
    const auto elements = node.elements(what);
    if (!elements) return;
    if (elements->empty() && !may_be_empty) node.fail("is empty, at least one is needed");
    value.clear();
    for (const Node& element : *elements) {
      typename Item::Value read_value{};
      item.read(element, read_value);
      value.push_back(std::move(read_value));  // also a wrong one: indices stay those of the file
    }
  }

  Tree tree(const Value& value, const Value* omit) const {
    Tree list = Tree::list();
    for (const auto& each : value) {
      list.items.push_back(omit ? item.tree_without_defaults(each) : item.tree(each, nullptr));
    }
    return list;
  }

  Tree schema() const {
    Tree schema = Tree::map();
    schema.put("type", Tree::text("array"));
    schema.put("items", item.schema());
    if (!may_be_empty) schema.put("minItems", Tree::raw("1"));
    return schema;
  }

  std::string type() const { return std::string{what.substr(what.find("list"))}; }
  std::string range() const { return may_be_empty ? "" : "at least one"; }
  void add_reference_rows(ReferenceRows& rows, const std::string& path) const {
    item.add_reference_rows(rows, path + "[]");
  }
};

// A list of scalars.
template <class Item>
struct ScalarListForm : ListForm<Item> {
  using Value = typename ListForm<Item>::Value;

  Tree tree(const Value& value, const Value*) const {
    Tree list = Tree::list();
    for (const auto& each : value) list.items.push_back(this->item.tree(each, nullptr));
    return list;
  }
};

// A list of texts; a single text is a list of one.
struct TextOrListForm : ScalarListForm<TextForm> {
  static constexpr Shape shape = Shape::scalar_or_list;

  void read(const Node& node, Value& value) const;
  Tree schema() const;
  std::string type() const { return "text or list of texts"; }
};

// The keys of a struct: specialised in fields.h for each one.
template <class T>
struct Fields;

// One key of a struct.
struct Key {
  std::string_view name;
  std::string_view doc;
  bool required = false;
  std::string_view default_text{};  // in the reference; empty: the value itself
};

template <class T>
struct StructForm {
  using Value = T;
  static constexpr Shape shape = Shape::map;

  static const std::vector<KnownKey>& known_keys() {
    static const std::vector<KnownKey> keys = [] {
      std::vector<KnownKey> list;
      Fields<T>::each([&](const Key& key, auto, const auto& form) {
        list.push_back({key.name, form.shape, key.required});
      });
      return list;
    }();
    return keys;
  }

  void read(Node node, T& value) const {
    if (!node.match_keys(known_keys())) return;
    if constexpr (requires { Fields<T>::prepare(value); }) Fields<T>::prepare(value);
    Fields<T>::each([&](const Key& key, auto member, const auto& form) {
      if (const auto child = node.child(key.name)) form.read(*child, value.*member);
    });
    if constexpr (requires { Fields<T>::finish(node, value); }) Fields<T>::finish(node, value);
  }

  // The defaults of a struct that holds this.
  static T defaults_for(const T& value) {
    T defaults{};
    if constexpr (requires { Fields<T>::derive(defaults, value); }) {
      Fields<T>::derive(defaults, value);
    }
    return defaults;
  }

  Tree tree(const T& value, const T* omit) const {
    Tree map = Tree::map();
    Fields<T>::each([&](const Key& key, auto member, const auto& form) {
      if (omit && !key.required && value.*member == omit->*member) return;
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
    std::vector<std::string> required;
    const T defaults{};
    Fields<T>::each([&](const Key& key, auto member, const auto& form) {
      Tree property = Tree::map();
      property.put("description", Tree::text(std::string{key.doc}));
      const Tree rest = form.schema();
      for (std::size_t i = 0; i < rest.keys.size(); ++i) {
        property.put(rest.keys[i].name, rest.items[i]);
      }
      Tree value = form.tree(defaults.*member, nullptr);
      const bool has_default = value.is_scalar() && !value.scalar.empty();
      if (!key.required && key.default_text.empty() && has_default) {
        property.put("default", std::move(value));
      }
      properties.put(std::string{key.name}, std::move(property));
      if (key.required) required.emplace_back(key.name);
    });
    Tree schema = Tree::map();
    schema.put("type", Tree::text("object"));
    schema.put("additionalProperties", Tree::raw("false"));
    if (!required.empty()) schema.put("required", Tree::list_of_text(required));
    schema.put("properties", std::move(properties));
    if constexpr (requires { Fields<T>::extend_schema(schema); }) {
      Fields<T>::extend_schema(schema);
    }
    return schema;
  }

  std::string type() const { return "mapping"; }
  std::string range() const { return {}; }

  void add_reference_rows(ReferenceRows& rows, const std::string& path) const {
    const T defaults{};
    Fields<T>::each([&](const Key& key, auto member, const auto& form) {
      const std::string full_path =
          path.empty() ? std::string{key.name} : path + "." + std::string{key.name};
      std::string default_text{key.default_text};
      if (key.required) {
        default_text = "required";
      } else if (default_text.empty()) {
        const Tree value = form.tree(defaults.*member, nullptr);
        if (value.is_scalar() && !value.scalar.empty()) default_text = "`" + value.scalar + "`";
      }
      rows.push_back({full_path, form.type(), default_text, form.range(), std::string{key.doc}});
      form.add_reference_rows(rows, full_path);
    });
  }
};

// A struct that may be absent as a whole.
template <class T>
struct OptionalForm {
  using Value = std::optional<T>;
  static constexpr Shape shape = Shape::map;

  StructForm<T> form;

  void read(const Node& node, Value& value) const { form.read(node, value.emplace()); }
  Tree tree(const Value& value, const Value* omit) const {
    if (!value) return {};
    return omit ? form.tree_without_defaults(*value) : form.tree(*value, nullptr);
  }
  Tree schema() const { return form.schema(); }
  std::string type() const { return form.type(); }
  std::string range() const { return form.range(); }
  void add_reference_rows(ReferenceRows& rows, const std::string& path) const {
    form.add_reference_rows(rows, path);
  }
};

// A backend is a mapping, or just its address.
struct BackendForm {
  using Value = BackendConfig;
  static constexpr Shape shape = Shape::scalar_or_map;

  void read(const Node& node, Value& value) const;
  Tree tree(const Value& value, const Value* omit) const;
  Tree tree_without_defaults(const Value& value) const;
  Tree schema() const;
  std::string type() const { return "address or mapping"; }
  std::string range() const { return {}; }
  void add_reference_rows(ReferenceRows& rows, const std::string& path) const;
};

// `pool: x` as a route's only target, and `split: {x: 95, y: 5}`: two keys for one member. Only
// one of them is written.
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
  std::string type() const { return "mapping of pool to share"; }
  std::string range() const { return share.range(); }
  void add_reference_rows(ReferenceRows&, const std::string&) const {}

  static constexpr WholeNumber share{0, 10'000};
};

// Checks for TextForm.
std::optional<ValidationError> check_name(std::string& value);
std::optional<ValidationError> check_not_empty(std::string& value);
std::optional<ValidationError> check_header_name(std::string& value);
std::optional<ValidationError> check_method(std::string& value);
std::optional<ValidationError> check_host_pattern(std::string& value);
std::optional<ValidationError> check_path_pattern(std::string& value);
std::optional<ValidationError> check_grpc_name(std::string& value);
std::optional<ValidationError> check_plain_path(std::string& value);
std::optional<ValidationError> check_url(std::string& value);

}  // namespace evenkeel::config_file
