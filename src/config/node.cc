#include "config/node.h"

#include <fmt/format.h>

#include <algorithm>

#include "config/key_places.h"
#include "config/synonyms.h"
#include "config/text.h"
#include "evenkeel/base/ascii.h"
#include "evenkeel/config/spelling.h"

namespace evenkeel::config_file {
namespace {

std::string shorten(std::string_view text) {
  constexpr std::size_t max_length = 60;
  if (text.size() <= max_length) return std::string{text};
  std::size_t end = max_length;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  return std::string{text.substr(0, end)} + "...";
}

bool fits(Shape shape, const Tree& tree) {
  switch (shape) {
    case Shape::scalar: return tree.is_scalar();
    case Shape::list: return tree.kind == Tree::Kind::list;
    case Shape::map: return tree.kind == Tree::Kind::map;
    case Shape::scalar_or_map: return tree.is_scalar() || tree.kind == Tree::Kind::map;
    case Shape::scalar_or_list: return tree.is_scalar() || tree.kind == Tree::Kind::list;
    case Shape::map_or_list: return tree.kind == Tree::Kind::map || tree.kind == Tree::Kind::list;
  }
  return false;
}

// True if a key that is none of ours may be meant for a secret: for what this program takes only as
// the name of a file, or as a hash.
bool may_name_secret(std::string_view key) {
  const std::string word = lower_case(key);
  const auto names = [&](std::string_view part) { return word.find(part) != word.npos; };
  return names("key") || names("token") || names("secret") || names("passw") || names("auth") ||
         names("credential") || names("bearer");
}

void hide_secrets(const Tree& value, Report& report) {
  if (value.is_scalar()) report.hide_secret(value.scalar);
  for (const Tree& item : value.items) hide_secrets(item, report);
}

std::vector<std::string> names_of(const std::vector<KnownKey>& known) {
  std::vector<std::string> names;
  names.reserve(known.size());
  for (const auto& key : known) names.emplace_back(key.name);
  return names;
}

// The key of "name:a"; null: there is none.
const KnownKey* key_without_space(std::string_view text, const std::vector<KnownKey>& known) {
  const auto key = std::ranges::find(known, text.substr(0, text.find(':')), &KnownKey::name);
  return key == known.end() || text.size() < key->name.size() + 2 ? nullptr : &*key;
}

std::string help_for_colon(std::string_view text, const KnownKey& key) {
  return fmt::format("did you mean '{}: {}'? a ':' needs a space behind it", key.name,
                     shorten(text.substr(key.name.size() + 1)));
}

// True if a word is another name for `meant` or a misspelling of it, not just a part of it.
bool is_near(std::string_view word, std::string_view meant, const std::vector<std::string>& names) {
  return edit_distance(word, meant, 3) < 3 || meaning_of(word, names).has_value();
}

bool is_variable_name(std::string_view name) {
  const auto is_word = [](char c) { return is_letter_or_digit(c) || c == '_'; };
  return !name.empty() && !is_digit(name.front()) && std::ranges::all_of(name, is_word);
}

}  // namespace

Mark ParseContext::mark_of(std::string path) const {
  for (;;) {
    const auto found = marks.find(path);
    if (found != marks.end()) return found->second;
    const std::size_t cut = path.find_last_of(".[");
    if (path.empty()) return {1, 1};
    path.resize(cut == path.npos ? 0 : cut);
  }
}

Node::Node(const Tree& tree, std::string path, ParseContext& context)
    : tree_(tree), path_(std::move(path)), context_(context) {
  context_.marks.insert_or_assign(path_, tree_.mark);
}

void Node::fail(std::string message, std::string help) const {
  if (tree_.broken) return;
  if (from_environment()) {
    message = fmt::format("{} cannot be used here", found());
    help.clear();
  }
  context_.report.add(tree_.mark, path_, std::move(message), std::move(help));
}

void Node::fail_missing(std::string path, std::string message, std::string help) const {
  if (tree_.broken || context_.incomplete) return;
  context_.report.add(tree_.mark, std::move(path), std::move(message), std::move(help));
}

void Node::fail_expected(std::string_view expected, std::string help) const {
  if (tree_.broken) return;
  if (from_environment()) help.clear();
  context_.report.add(tree_.mark, path_, fmt::format("expected {}, found {}", expected, found()),
                      std::move(help));
}

void Node::fail_out_of_range(std::string_view found_number, std::string_view range,
                             std::string help) const {
  if (tree_.broken) return;
  const bool hidden = from_environment();
  context_.report.add(tree_.mark, path_,
                      fmt::format("{} is out of range, expected {}",
                                  hidden ? found() : std::string(found_number), range),
                      hidden ? std::string() : std::move(help));
}

std::string Node::found() const {
  if (from_environment()) return fmt::format("the value of '{}'", shorten(tree_.scalar));
  switch (tree_.kind) {
    case Tree::Kind::nothing: return "nothing";
    case Tree::Kind::list: return "a list";
    case Tree::Kind::map: return "a mapping";
    case Tree::Kind::quoted: return fmt::format("the text '{}'", shorten(tree_.scalar));
    case Tree::Kind::plain: break;
  }
  switch (type_of_plain(tree_.scalar)) {
    case PlainType::number: return fmt::format("the number {}", shorten(tree_.scalar));
    case PlainType::boolean: return tree_.scalar;
    case PlainType::null: return "nothing";
    case PlainType::text: break;
  }
  return fmt::format("'{}'", shorten(tree_.scalar));
}

std::optional<Node::Scalar> Node::scalar(std::string_view expected) const {
  if (tree_.broken) return std::nullopt;
  if (!tree_.is_scalar()) {
    fail_expected(expected);
    return std::nullopt;
  }
  Scalar scalar;
  auto text = expand(tree_.scalar, scalar.from_environment);
  if (!text) return std::nullopt;
  scalar.text = std::move(*text);
  return scalar;
}

void Node::hide(const std::string& derived) const {
  const auto written = context_.report.variables.written.find(path_);
  if (written == context_.report.variables.written.end() || derived.empty()) return;
  context_.report.variables.values.emplace(derived, written->second);
}

void Node::hide_secret() const {
  if (tree_.is_scalar()) context_.report.hide_secret(tree_.scalar);
}

void Node::hide_password() const {
  if (!tree_.is_scalar()) return;
  const std::string& url = tree_.scalar;
  const std::size_t end = url.rfind('@');
  if (end == url.npos) return;
  const std::size_t scheme = url.find("://");
  const std::size_t user = scheme < end ? scheme + 3 : 0;
  const std::size_t colon = std::min(url.find(':', user), end);
  const std::size_t begin = colon < end ? colon + 1 : user;
  context_.report.hide_secret(url.substr(begin, end - begin));
}

// How to make a list of what is none.
std::string Node::help_for_list(const std::vector<KnownKey>& keys) const {
  if (!is_scalar() && (!is_map() || tree_.keys.empty())) return {};
  const auto is_key = [&](std::string_view name) {
    return std::ranges::find(keys, name, &KnownKey::name) != keys.end();
  };
  if (is_map() && is_key(tree_.keys[0].name)) {
    return fmt::format("write '- ' before '{}', or [ ] around the mapping", tree_.keys[0].name);
  }
  if (is_map() && is_key("name")) {
    return fmt::format("each begins with its name: '- name: {}'", shorten(tree_.keys[0].name));
  }
  return "a list is written [a, b], or one '- ' line each";
}

std::optional<std::vector<Node>> Node::elements(std::string_view expected,
                                                const std::vector<KnownKey>& keys) const {
  if (!is_list()) {
    fail_expected(expected, help_for_list(keys));
    return std::nullopt;
  }
  std::vector<Node> nodes;
  nodes.reserve(tree_.items.size());
  for (std::size_t i = 0; i < tree_.items.size(); ++i) {
    nodes.emplace_back(tree_.items[i], fmt::format("{}[{}]", path_, i), context_);
  }
  return nodes;
}

std::optional<std::vector<std::pair<std::string, Node>>> Node::entries(
    std::string_view expected) const {
  if (!is_map()) {
    fail_expected(expected);
    return std::nullopt;
  }
  std::vector<std::pair<std::string, Node>> nodes;
  for (std::size_t i = 0; i < tree_.items.size(); ++i) {
    const std::string& key = tree_.keys[i].name;
    nodes.emplace_back(key, Node{tree_.items[i], join(path_, key), context_});
  }
  return nodes;
}

bool Node::match_keys(const std::vector<KnownKey>& known) {
  if (!is_map()) {
    const auto key = is_scalar() ? key_without_space(tree_.scalar, known) : nullptr;
    fail_expected(fmt::format("a mapping of {}", fmt::join(names_of(known), ", ")),
                  key ? help_for_colon(tree_.scalar, *key) : "");
    return false;
  }
  std::vector<std::size_t> unknown;
  for (std::size_t i = 0; i < tree_.keys.size(); ++i) {
    const auto key = std::ranges::find_if(
        known, [&](const KnownKey& candidate) { return candidate.name == tree_.keys[i].name; });
    if (key == known.end()) {
      unknown.push_back(i);
    } else {
      matched_.emplace(key->name, &tree_.items[i]);
    }
  }
  for (const std::size_t i : unknown) report_unknown_key(i, known);
  for (const auto& key : known) {
    if (!key.required || matched_.count(key.name) > 0) continue;
    fail_missing(join(path_, key.name), fmt::format("missing key '{}'", key.name));
  }
  return true;
}

void Node::refuse_key(std::string_view key, std::span<const std::string_view> variants) const {
  if (!has(key)) return;
  const auto written = std::ranges::find(tree_.keys, key, &Tree::Key::name);
  const Mark mark = written == tree_.keys.end() ? tree_.mark : written->mark;
  context_.report.add(mark, join(path_, key), "unknown key",
                      fmt::format("only `{}` has it", fmt::join(variants, "` or `")));
}

bool Node::report_moved_key(std::size_t index) const {
  const Tree::Key& key = tree_.keys[index];
  const auto report = [&](const Tree::Key& moved, const std::string& path) {
    const std::string_view place = new_place_of(path);
    if (place.empty()) return false;
    context_.report.add(moved.mark, path, fmt::format("is now '{}'", join(path_, place)));
    return true;
  };
  const std::string path = join(path_, key.name);
  bool found = report(key, path);
  for (const Tree::Key& inner : tree_.items[index].keys)
    found |= report(inner, join(path, inner.name));
  return found;
}

void Node::report_unknown_key(std::size_t index, const std::vector<KnownKey>& known) {
  if (report_moved_key(index)) return;
  const auto names = names_of(known);
  const Tree::Key& key = tree_.keys[index];
  if (const KnownKey* joined = key_without_space(key.name, known)) {
    if (may_name_secret(joined->name))
      context_.report.hide_secret(key.name.substr(joined->name.size() + 1));
    context_.report.add(key.mark, join(path_, joined->name), "unknown key",
                        help_for_colon(key.name, *joined));
    matched_.emplace(joined->name, nullptr);
    return;
  }
  if (may_name_secret(key.name)) hide_secrets(tree_.items[index], context_.report);
  auto meant = nearest_word(key.name, names);
  const auto shape = [&](std::string_view name) {
    return std::ranges::find(known, name, &KnownKey::name)->shape;
  };
  const Tree& value = tree_.items[index];
  std::vector<std::string> places;
  if (!meant) {
    places = places_of(key.name, false);
  } else if (!fits(shape(*meant), value) || !is_near(key.name, *meant, names)) {
    const bool should_be_map = shape(*meant) == Shape::map && value.is_scalar();
    const std::string inside = should_be_map ? place_inside(*meant, key.name, path_) : "";
    if (inside.empty()) {
      places = places_of(key.name, true);
    } else {
      places.push_back(inside);
    }
  }
  if (!places.empty()) meant.reset();
  const auto missing_space = std::ranges::find_if(
      names, [&](const std::string& name) { return key.name.starts_with(name + " "); });
  std::string help = fmt::format("known keys: {}", fmt::join(names, ", "));
  if (meant) {
    help = fmt::format("did you mean '{}'?", *meant);
  } else if (!places.empty()) {
    help = fmt::format("did you mean '{}'?", fmt::join(places, "' or '"));
  } else if (missing_space != names.end()) {
    help = fmt::format("did you mean '{}:{}'?", *missing_space,
                       key.name.substr(missing_space->size()));
  }
  context_.report.add(key.mark, join(path_, key.name), "unknown key", help);

  if (!meant) return;
  const auto it = std::ranges::find_if(
      known, [&](const KnownKey& candidate) { return candidate.name == *meant; });
  matched_.emplace(it->name, fits(it->shape, value) ? &value : nullptr);
}

// Where in the file the key belongs; empty: there is no such key, or there are too many. To look
// takes a while, and is worth it only where it is shown.
std::vector<std::string> Node::places_of(std::string_view key, bool only_below) const {
  constexpr std::size_t max_listed = 4;
  if (context_.report.size() >= Report::max_listed) return {};
  KeyPlaces found = places_of_key(key, path_);
  auto places = std::move(found.below);
  if (only_below) {
    const std::string ending = "." + std::string(key);
    std::erase_if(places,
                  [&](std::string_view place) { return place != key && !place.ends_with(ending); });
    // In a mapping of the same name: the limits of listeners in place of the process's.
    const std::string same = "." + std::string(name_in(path_)) + ending;
    for (const std::string& place : found.elsewhere) {
      if (places.empty() && place.ends_with(same)) places.push_back(place);
    }
  }
  if (places.empty() && !only_below) places = std::move(found.elsewhere);
  if (places.size() > max_listed) places.clear();
  return places;
}

std::optional<Node> Node::child(std::string_view key) const {
  const auto found = matched_.find(key);
  if (found == matched_.end() || found->second == nullptr) return std::nullopt;
  return Node{*found->second, join(path_, key), context_};
}

std::optional<std::string> Node::expand(std::string_view text, bool& expanded) const {
  std::string out;
  while (!text.empty()) {
    const std::size_t dollar = std::min(text.find('$'), text.size());
    out += text.substr(0, dollar);
    text.remove_prefix(dollar);
    if (text.starts_with("$$")) {
      out += '$';
      text.remove_prefix(2);
    } else if (text.starts_with("${")) {
      const std::size_t end = text.find('}');
      if (end == text.npos) {
        fail("'${' without '}'", "write '$$' for a literal '$'");
        return std::nullopt;
      }
      const auto value = variable(text.substr(2, end - 2));
      if (!value) return std::nullopt;
      out += *value;
      expanded = true;
      text.remove_prefix(end + 1);
    } else if (!text.empty()) {
      out += '$';
      text.remove_prefix(1);
    }
  }
  return out;
}

// The value for NAME or NAME:-default.
std::optional<std::string> Node::variable(std::string_view reference) const {
  const std::size_t separator = reference.find(":-");
  const std::string name{reference.substr(0, separator)};
  if (!is_variable_name(name)) {
    fail(fmt::format("'{}' is not the name of an environment variable", shorten(name)),
         "write ${NAME} or ${NAME:-default}");
    return std::nullopt;
  }
  const auto& look_up = context_.environment.variable;
  auto value = look_up ? look_up(name) : std::nullopt;
  // As in a shell, an empty variable is as good as none where there is a default.
  if (separator != reference.npos && (!value || value->empty())) {
    return std::string{reference.substr(separator + 2)};
  }
  if (value) {
    context_.report.variables.written.emplace(path_, tree_.scalar);
    if (!value->empty()) context_.report.variables.add(*value, name);
  } else {
    fail(fmt::format("the environment variable {} is not set", name),
         fmt::format("set it, or give a default: ${{{}:-value}}", name));
  }
  return value;
}

}  // namespace evenkeel::config_file
