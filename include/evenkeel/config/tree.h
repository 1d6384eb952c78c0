#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace evenkeel::config_file {

// A place in the file: both from 1, the column in characters. Line 0: nowhere in particular.
struct Mark {
  int line = 0;
  int column = 0;

  bool operator==(const Mark&) const = default;
};

// A document: what the YAML parser found, and what the printers of YAML and JSON write. Keys keep
// their order.
struct Tree {
  enum class Kind {
    nothing,  // an empty value, or null
    plain,    // a scalar without quotes: a number, true, or text
    quoted,   // a scalar that is text whatever it looks like
    list,
    map,
  };

  struct Key {
    std::string name;
    Mark mark;

    bool operator==(const Key&) const = default;
  };

  Kind kind = Kind::nothing;
  Mark mark;
  std::string scalar;
  std::vector<Key> keys;    // of a map: keys[i] belongs to items[i]
  std::vector<Tree> items;  // of a list or map
  bool broken = false;      // not what the author meant, and already reported

  bool operator==(const Tree&) const = default;
  bool is_scalar() const { return kind == Kind::plain || kind == Kind::quoted; }

  static Tree text(std::string value);
  static Tree raw(std::string value);  // a number, true or false
  static Tree list(std::vector<Tree> items = {});
  static Tree list_of_text(const std::vector<std::string>& items);
  static Tree map(std::initializer_list<std::pair<std::string_view, Tree>> entries = {});

  // Sets the value of a key of a map, the last one if it is new, and returns the map.
  Tree& put(std::string key, Tree value);
};

// Writers for documents made with the functions above. JSON is indented; YAML is in block style,
// with lists of scalars on one line.
std::string to_json(const Tree& tree);
std::string to_yaml(const Tree& tree);

// What YAML 1.2 (core schema) takes a scalar without quotes for.
enum class PlainType { text, number, boolean, null };
PlainType type_of_plain(std::string_view plain);

}  // namespace evenkeel::config_file
