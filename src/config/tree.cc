#include "evenkeel/config/tree.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>

#include "evenkeel/base/ascii.h"
#include "evenkeel/json/writer.h"

namespace evenkeel::config_file {

Tree Tree::text(std::string value) {
  Tree tree;
  tree.kind = Kind::quoted;
  tree.scalar = std::move(value);
  return tree;
}

Tree Tree::raw(std::string value) {
  Tree tree;
  tree.kind = Kind::plain;
  tree.scalar = std::move(value);
  return tree;
}

Tree Tree::list(std::vector<Tree> items) {
  Tree tree;
  tree.kind = Kind::list;
  tree.items = std::move(items);
  return tree;
}

Tree Tree::list_of_text(const std::vector<std::string>& items) {
  Tree tree = list();
  for (const auto& item : items) tree.items.push_back(text(item));
  return tree;
}

Tree Tree::map(std::initializer_list<std::pair<std::string_view, Tree>> entries) {
  Tree tree;
  tree.kind = Kind::map;
  for (const auto& [key, value] : entries) tree.put(std::string(key), value);
  return tree;
}

Tree& Tree::put(std::string key, Tree value) {
  const auto found = std::ranges::find(keys, key, &Key::name);
  if (found != keys.end()) {
    items[static_cast<std::size_t>(found - keys.begin())] = std::move(value);
    return *this;
  }
  keys.push_back({std::move(key), {}});
  items.push_back(std::move(value));
  return *this;
}

namespace {

void write_json(const Tree& tree, std::string& out, std::size_t indent) {
  const bool is_map = tree.kind == Tree::Kind::map;
  switch (tree.kind) {
    case Tree::Kind::nothing: out += "null"; return;
    case Tree::Kind::plain: out += tree.scalar; return;
    case Tree::Kind::quoted: out += json_string(tree.scalar); return;
    case Tree::Kind::list:
    case Tree::Kind::map: break;
  }
  if (tree.items.empty()) {
    out += is_map ? "{}" : "[]";
    return;
  }
  const bool on_one_line =
      !is_map && std::ranges::all_of(tree.items, [](const Tree& item) { return item.is_scalar(); });
  const std::string separator = on_one_line ? " " : "\n" + std::string(indent + 2, ' ');
  out += is_map ? '{' : '[';
  if (!on_one_line) out += separator;
  for (std::size_t i = 0; i < tree.items.size(); ++i) {
    if (i > 0) out += "," + separator;
    if (is_map) out += json_string(tree.keys[i].name) + ": ";
    write_json(tree.items[i], out, indent + 2);
  }
  if (!on_one_line) out += "\n" + std::string(indent, ' ');
  out += is_map ? '}' : ']';
}

bool is_one_of(std::string_view text, std::initializer_list<std::string_view> words) {
  return std::ranges::find(words, text) != words.end();
}

// Takes the characters of `set` from the front of `text`; how many there were.
std::size_t skip(std::string_view& text, std::string_view set) {
  const std::size_t count = std::min(text.find_first_not_of(set), text.size());
  text.remove_prefix(count);
  return count;
}

bool is_number(std::string_view text) {
  constexpr std::string_view digits = "0123456789";
  if (text.starts_with("0x"))
    return text.find_first_not_of("0123456789abcdefABCDEF", 2) == text.npos;
  if (text.starts_with("0o")) return text.find_first_not_of("01234567", 2) == text.npos;
  if (text == ".nan" || text == ".NaN" || text == ".NAN") return true;
  if (!text.empty() && (text.front() == '-' || text.front() == '+')) text.remove_prefix(1);
  if (is_one_of(text, {".inf", ".Inf", ".INF"})) return true;
  std::size_t count = skip(text, digits);
  if (!text.empty() && text.front() == '.') {
    text.remove_prefix(1);
    count += skip(text, digits);
  }
  if (count == 0) return false;
  if (!text.empty() && (text.front() == 'e' || text.front() == 'E')) {
    text.remove_prefix(1);
    if (!text.empty() && (text.front() == '-' || text.front() == '+')) text.remove_prefix(1);
    if (skip(text, digits) == 0) return false;
  }
  return text.empty();
}

// True if YAML 1.1, which many tools still read, takes the text for a boolean, a date, or 1:30.
bool is_special_in_yaml_1_1(std::string_view text) {
  if (is_one_of(lower_case(text), {"yes", "no", "on", "off", "y", "n"})) return true;
  return is_digit(text.front()) && std::count(text.begin(), text.end(), '.') <= 1 &&
         text.find_first_not_of("0123456789_:+-.") == text.npos;
}

// True if text needs no quotes anywhere, also inside [] and {}.
bool stands_plain(std::string_view text) {
  if (type_of_plain(text) != PlainType::text || is_special_in_yaml_1_1(text)) return false;
  constexpr std::string_view first = "/._";
  constexpr std::string_view inside = "/._-+@*";
  if (!is_letter_or_digit(text.front()) && first.find(text.front()) == first.npos) return false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool colon = text[i] == ':' && i + 1 < text.size();
    if (!is_letter_or_digit(text[i]) && !colon && inside.find(text[i]) == inside.npos) return false;
  }
  return true;
}

std::string yaml_scalar(const Tree& tree) {
  if (tree.kind == Tree::Kind::nothing) return "null";
  if (tree.kind == Tree::Kind::plain) return tree.scalar;
  // A `$` written out must not be taken for the start of ${VARIABLE} when it is read back.
  std::string text;
  for (char c : tree.scalar) text += c == '$' ? "$$" : std::string(1, c);
  return stands_plain(text) ? text : json_string(text);
}

std::string yaml_key(const std::string& key) { return stands_plain(key) ? key : json_string(key); }

bool is_flow(const Tree& tree) {
  if (tree.kind != Tree::Kind::list && tree.kind != Tree::Kind::map) return true;
  if (tree.items.empty()) return true;
  return tree.kind == Tree::Kind::list &&
         std::ranges::all_of(tree.items, [](const Tree& item) { return item.is_scalar(); });
}

std::string yaml_flow(const Tree& tree) {
  if (tree.kind == Tree::Kind::map) return "{}";
  if (tree.kind != Tree::Kind::list) return yaml_scalar(tree);
  std::string out = "[";
  for (const auto& item : tree.items) out += (out.size() > 1 ? ", " : "") + yaml_scalar(item);
  return out + "]";
}

void write_yaml(const Tree& tree, std::string& out, std::size_t indent, bool first_on_line) {
  const auto start_line = [&] {
    if (!first_on_line) out += std::string(indent, ' ');
    first_on_line = false;
  };
  for (std::size_t i = 0; i < tree.items.size(); ++i) {
    const Tree& item = tree.items[i];
    start_line();
    if (tree.kind == Tree::Kind::map) {
      out += yaml_key(tree.keys[i].name) + ":";
      if (is_flow(item)) {
        out += " " + yaml_flow(item) + "\n";
      } else {
        out += "\n";
        write_yaml(item, out, indent + 2, false);
      }
    } else if (is_flow(item)) {
      out += "- " + yaml_flow(item) + "\n";
    } else {
      out += "- ";
      write_yaml(item, out, indent + 2, true);
    }
  }
}

}  // namespace

std::string to_json(const Tree& tree) {
  std::string out;
  write_json(tree, out, 0);
  return out + "\n";
}

std::string to_yaml(const Tree& tree) {
  if (is_flow(tree)) return yaml_flow(tree) + "\n";
  std::string out;
  write_yaml(tree, out, 0, false);
  return out;
}

PlainType type_of_plain(std::string_view plain) {
  if (is_one_of(plain, {"", "~", "null", "Null", "NULL"})) return PlainType::null;
  if (is_one_of(plain, {"true", "True", "TRUE", "false", "False", "FALSE"})) {
    return PlainType::boolean;
  }
  return is_number(plain) ? PlainType::number : PlainType::text;
}

}  // namespace evenkeel::config_file
