#include "evenkeel/config/backend_list.h"

#include <fmt/format.h>

#include <charconv>
#include <map>
#include <string>
#include <utility>
#include <variant>

#include "config/backend_fields.h"
#include "config/compound_forms.h"
#include "config/forms.h"
#include "config/readable_text.h"
#include "config/yaml.h"
#include "evenkeel/base/file.h"
#include "evenkeel/config/address.h"

namespace evenkeel {
namespace config_file {
namespace {

struct TargetGroup {
  std::vector<std::string> targets;
  std::map<std::string, std::string> labels;
};

void each_key(Of<TargetGroup>, const auto& visit) {
  using T = TargetGroup;
  visit(Key{"targets", "Addresses of backends.", required}, &T::targets,
        ListForm<TextForm>{TextForm{"host:port", check_not_empty}, "a list of targets"});
  visit(Key{"labels", "What they have in common.", "none"}, &T::labels,
        TextMapForm{"a mapping of labels to values", check_not_empty});
}

// Sets what a label stands for. Names with two underscores before them are not for people: of those
// only what a backend needs is taken.
void add_label(BackendConfig& backend, const std::string& name, const std::string& value) {
  if (name == "__scheme__") {
    backend.address.secure = value == "https";
  } else if (name == "__zone__") {
    backend.zone = value;
  } else if (name == "__weight__") {
    std::uint32_t weight = 0;
    std::from_chars(value.data(), value.data() + value.size(), weight);
    if (weight >= 1 && weight <= 1'000) backend.weight = weight;
  } else if (!name.starts_with("__") && !value.empty()) {
    backend.labels.emplace(name, value);
  }
}

void read_group(const Node& node, std::vector<BackendConfig>& backends) {
  TargetGroup group;
  StructForm<TargetGroup>{}.read(node, group);
  for (const std::string& target : group.targets) {
    std::string why;
    const auto address = parse_backend_address(target, why);
    if (!address) return node.fail(fmt::format("'{}' is no target: {}", target, why));
    BackendConfig backend{.address = *address};
    for (const auto& [name, value] : group.labels) add_label(backend, name, value);
    backends.push_back(std::move(backend));
  }
}

bool has_targets(const Tree& tree) {
  for (const Tree& item : tree.items) {
    for (const Tree::Key& key : item.keys) {
      if (key.name == "targets") return true;
    }
  }
  return false;
}

void read_list(const Tree& tree, BackendListKind kind, std::vector<BackendConfig>& backends,
               ParseContext& context) {
  const Node root(tree, {}, context);
  if (tree.kind == Tree::Kind::nothing) return root.fail("is empty", "write [] for no backends");
  if (kind == BackendListKind::any && !has_targets(tree)) {
    return ListForm<BackendForm>{{{}, backend_address(), "an address, or a mapping with one"},
                                 "a list of backends or of targets"}
        .read(root, backends);
  }
  const auto groups = root.elements("a list of targets");
  if (!groups) return;
  for (const Node& group : *groups) read_group(group, backends);
}

}  // namespace
}  // namespace config_file

Result<std::vector<BackendConfig>> read_backend_list(std::string_view text, BackendListKind kind) {
  using namespace config_file;
  static const Environment nothing;  // a list may come from elsewhere: it learns no variable
  std::vector<BackendConfig> backends;
  ParseContext context{Report{{}}, nothing, {}, false};
  if (is_readable(text, context.report)) {
    const ParsedYaml parsed = parse_yaml(text, context.report);
    if (const auto& error = parsed.syntax_error) {
      context.report.add(error->mark, {}, error->message, error->help);
    } else {
      read_list(parsed.root, kind, backends, context);
    }
  }
  if (context.report.size() == 0) return backends;
  const Problem first = context.report.take().front();
  std::string detail = fmt::format("{}:{}: ", first.line, first.column);
  if (!first.path.empty()) detail += first.path + ": ";
  detail += first.message;
  if (!first.help.empty()) detail += "; " + first.help;
  return Error{.fault = Fault::bad_request, .detail = std::move(detail)};
}

Result<std::vector<BackendConfig>> read_backend_file(const std::string& path) {
  constexpr std::size_t max_bytes = std::size_t{4} << 20;
  auto text = read_file(path, max_bytes);
  if (const auto* failure = std::get_if<FileError>(&text))
    return Error{.fault = Fault::bad_request, .detail = "cannot be read: " + failure->why};
  return read_backend_list(std::get<std::string>(text), BackendListKind::any);
}

}  // namespace evenkeel
