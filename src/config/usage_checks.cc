#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "config/fields.h"

// The keys of `usage` and `audit`.
namespace evenkeel::config_file {
namespace {

// True if the price is a whole number of millionths, so that costs are exact.
bool is_exact(double price) {
  const double millionths = price * 1e6;
  return std::abs(millionths - std::round(millionths)) < 1e-3;
}

}  // namespace

void finish(Of<ModelPrice>, Node& node, ModelPrice& price) {
  const auto check = [&node](std::string_view key, double value) {
    if (is_exact(value)) return;
    node.fail(fmt::format("'{}' has more than six decimals", key),
              "prices are those of a million tokens");
  };
  check("input", price.input);
  check("output", price.output);
  if (price.cached_input) check("cached_input", *price.cached_input);
}

void ModelPricesForm::read(const Node& node, Value& value) const {
  const auto entries = node.entries("a mapping such as {llama-70b: {input: 0.6, output: 1.8}}");
  if (!entries) return;
  value.clear();
  for (const auto& [name, entry] : *entries) {
    std::string model = name;
    if (auto problem = check_model_name(model)) entry.fail(problem->message, problem->help);
    const auto is_same = [&model](const ModelPrice& each) { return each.model == model; };
    if (std::ranges::any_of(value, is_same)) entry.fail(fmt::format("duplicate key '{}'", model));
    ModelPrice read_price;
    StructForm<ModelPrice>{}.read(entry, read_price);
    read_price.model = std::move(model);
    value.push_back(std::move(read_price));
  }
}

Tree ModelPricesForm::tree(const Value& value, const Value* omit) const {
  Tree map = Tree::map();
  for (const ModelPrice& each : value) {
    map.put(each.model, tree_of(StructForm<ModelPrice>{}, each, omit != nullptr));
  }
  return map;
}

Tree ModelPricesForm::schema() const {
  return Tree::map({{"type", Tree::text("object")},
                    {"additionalProperties", StructForm<ModelPrice>{}.schema()}});
}

void finish(Of<UsageConfig>, Node& node, UsageConfig& usage) {
  if (!usage.path.empty() || usage.source.empty()) return;  // limits of cost need prices alone
  node.fail_missing(node.path() + ".path", "missing key 'path'",
                    "name the file of the records, such as /var/log/evenkeel/usage.jsonl");
}

void finish(Of<AuditConfig>, Node& node, AuditConfig& audit) {
  if (!audit.path.empty() || audit.key_file.empty()) return;
  node.fail_missing(node.path() + ".path", "missing key 'path'",
                    "name the file of the records, such as /var/log/evenkeel/audit.jsonl");
}

}  // namespace evenkeel::config_file
