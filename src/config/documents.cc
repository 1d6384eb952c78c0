// Everything generated from the field table: the effective configuration, the schema, the
// reference.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "config/fields.h"
#include "evenkeel/config/load.h"

namespace evenkeel {
namespace config_file {
namespace {

std::string escape_cell(std::string_view text) {
  std::string out;
  for (char c : text) out += c == '|' ? "\\|" : std::string(1, c);
  return out;
}

std::string table_of(const ReferenceRows& rows, std::string_view section) {
  std::string out = "| key | value | default | meaning |\n|---|---|---|---|\n";
  for (const ReferenceRow& row : rows) {
    // In the section "pools", "pools[].limits.queue" is written as "limits.queue".
    std::string_view key = row.path;
    key.remove_prefix(section.size());
    if (key.starts_with("[]")) key.remove_prefix(2);
    if (key.starts_with(".")) key.remove_prefix(1);
    out +=
        fmt::format("| `{}` | {}{}{} | {} | {} |\n", key, row.type, row.range.empty() ? "" : ": ",
                    escape_cell(row.range), escape_cell(row.default_text), escape_cell(row.doc));
  }
  return out;
}

/// True if an earlier section has the same key: `tls` of the admin listener is that of listeners.
bool is_repeated(const ReferenceRow& row, const ReferenceRows& earlier) {
  const auto name = [](const ReferenceRow& each) {
    return std::string_view(each.path).substr(each.path.rfind('.') + 1);
  };
  return std::ranges::any_of(earlier, [&](const ReferenceRow& each) {
    return name(each) == name(row) && each.type == row.type && each.doc == row.doc &&
           each.default_text == row.default_text && each.range == row.range;
  });
}

constexpr std::string_view introduction = R"(# Configuration

evenkeel reads one YAML file. `evenkeel check -c FILE` reports every mistake in it with its line,
its key and mostly a suggestion; `evenkeel config print -c FILE --defaults` shows the effective
configuration. The smallest file that runs:

```yaml
pools: [{name: llama, backends: [http://127.0.0.1:8000]}]
```

[`config/`](../config) has samples. With this as the first line of a file, editors complete and
check keys:

```yaml
# yaml-language-server: $schema=evenkeel.schema.json
```

- A **duration** is a number with a unit: `500ms`, `30s`, `5m`, `1.5h`, `1d`. So is a **size**:
  `512B`, `32KiB`, `8MiB`. A number without a unit is an error. A **percentage** is `1%`; a number
  without a `%` is a share: `0.01` is 1 %, and `1` is all. A **rate** is an amount per period:
  `10/s`, `600/min`, `200k/hour`, `5M/day`, `1G/month`.
- An **address** is `host:port`. Write IPv6 addresses in brackets and quotes: `"[::1]:8080"`.
- In any value, `${NAME}` is an environment variable, which must be set; `${NAME:-text}` is the
  variable, or the text if it is unset or empty; `$$` is a `$`. Put such values in quotes inside
  `[ ]` and `{ }`.
- A key may appear only once. YAML anchors, aliases, merge keys and tags are rejected: every value
  stands where it applies.
- A file has at most 500 000 keys and values and a million lines.
- Keys that a mapping has in common with an earlier one, such as `tls` of `admin` with that of
  `listeners`, are listed once.

`evenkeel config reference` generates this page, and `evenkeel config schema` generates
`config/evenkeel.schema.json`.
)";

// Shows the scalars of the tree as the file has them where they come from variables, and no hash of
// a key and no salt. `path`: of the tree. A value that stands elsewhere too is hidden there, by its
// text.
void show_as_written(Tree& tree, const VariablesUsed& variables, const std::string& path) {
  const auto written = variables.written.find(path);
  if (tree.items.empty() && !tree.scalar.empty()) {
    const bool is_written = written != variables.written.end();
    tree.scalar = variables.hide(is_written ? written->second : tree.scalar);
  }
  for (std::size_t i = 0; i < tree.items.size(); ++i) {
    Tree& item = tree.items[i];
    const bool is_list = tree.keys.empty();
    if (!is_list && tree.keys[i].name == "cache_salt") {
      item.scalar = "***";
      continue;
    }
    if (!is_list && tree.keys[i].name == "keys_sha256") {
      for (Tree& hash : item.items) hash.scalar = "***";
      continue;
    }
    const std::string_view dot = path.empty() ? "" : ".";
    show_as_written(item, variables,
                    is_list ? fmt::format("{}[{}]", path, i)
                            : fmt::format("{}{}{}", path, dot, tree.keys[i].name));
  }
}

}  // namespace
}  // namespace config_file

std::string print_config(const Config& config, bool with_defaults) {
  using namespace config_file;
  const StructForm<Config> form;
  return to_yaml(with_defaults ? form.tree(config, nullptr) : form.tree_without_defaults(config));
}

std::string show_config(const Config& config, const VariablesUsed* variables) {
  using namespace config_file;
  Tree tree = StructForm<Config>{}.tree_without_defaults(config);
  VariablesUsed shown;
  if (variables != nullptr) {
    // Parts of values, and short ones, stand in other texts by chance.
    constexpr std::size_t min_bytes = 4;
    shown.written = variables->written;
    for (const auto& [value, in_place] : variables->values) {
      const bool counts = in_place == "***" || variables->whole.contains(value);
      if (counts && value.size() >= min_bytes) shown.values.emplace(value, in_place);
    }
  }
  show_as_written(tree, shown, {});
  std::string yaml = to_yaml(tree);
  // The printer escapes `$`, which begins the names of variables here.
  for (std::size_t at = 0; (at = yaml.find("$${", at)) != std::string::npos; ++at)
    yaml.erase(at, 1);
  return yaml;
}

std::string config_schema() {
  using namespace config_file;
  Tree schema = Tree::map({{"$schema", Tree::text("https://json-schema.org/draft/2020-12/schema")},
                           {"$id", Tree::text("evenkeel.schema.json")},
                           {"title", Tree::text("evenkeel configuration")}});
  Tree rest = StructForm<Config>{}.schema();
  for (std::size_t i = 0; i < rest.keys.size(); ++i) {
    schema.put(rest.keys[i].name, std::move(rest.items[i]));
  }
  return to_json(schema);
}

std::string config_reference() {
  using namespace config_file;
  ReferenceRows rows;
  StructForm<Config>{}.add_reference_rows(rows, {});

  std::string out{introduction};
  ReferenceRows top;
  for (const ReferenceRow& row : rows) {
    if (row.path.find_first_of(".[") == std::string::npos) top.push_back(row);
  }
  out += "\n## The file\n\n" + table_of(top, {});
  ReferenceRows earlier;
  for (const ReferenceRow& section : top) {
    ReferenceRows inside;
    for (const ReferenceRow& row : rows) {
      if (!row.path.starts_with(section.path + ".") && !row.path.starts_with(section.path + "[")) {
        continue;
      }
      if (!is_repeated(row, earlier)) inside.push_back(row);
    }
    earlier.insert(earlier.end(), inside.begin(), inside.end());
    if (inside.empty()) continue;
    out += fmt::format("\n## {}\n\n{}", section.path, table_of(inside, section.path));
  }
  return out;
}

}  // namespace evenkeel
