#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "config/fields.h"
#include "evenkeel/base/host.h"
#include "evenkeel/config/address.h"

// The keys of `usage` and `audit`.
namespace evenkeel::config_file {
namespace {

// True if the price is a whole number of millionths, so that costs are exact.
bool is_exact(double price) {
  const double millionths = price * 1e6;
  return std::abs(millionths - std::round(millionths)) < 1e-3;
}

// True if the host of a URL is localhost or an address of the loopback interface.
bool is_this_machine(const std::string& url) {
  std::string why;
  const std::size_t path_at = url.find('/', url.find("://") + 3);
  const auto address = parse_backend_address(std::string_view(url).substr(0, path_at), why);
  if (!address) return true;  // which is reported
  if (normal_host(address->host) == "localhost") return true;
  const auto ip = parse_ip(address->host);
  return ip && (ip_text(*ip).starts_with("127.") || ip_text(*ip) == "::1");
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

void finish(Of<UsageHttpConfig>, Node& node, UsageHttpConfig& http) {
  if (http.url.empty()) return;  // which is reported
  const bool secure = http.url.starts_with("https://");
  if (!http.ca.empty() && !secure) {
    node.fail("'ca' is for https://, and 'url' has http://",
              "write https:// in 'url', or remove 'ca'");
  }
  if (http.token_file.empty() || secure || is_this_machine(http.url)) return;
  node.fail("the token of 'token_file' would go over the network in plaintext",
            "write https:// in 'url', or remove 'token_file'");
}

void finish(Of<UsageConfig>, Node& node, UsageConfig& usage) {
  // Limits of cost need prices alone.
  if (!usage.path.empty() || (usage.source.empty() && !usage.http)) return;
  node.fail_missing(node.path() + ".path", "missing key 'path'",
                    "name the file of the records, such as /var/log/evenkeel/usage.jsonl");
}

void finish(Of<AuditConfig>, Node& node, AuditConfig& audit) {
  if (!audit.path.empty() || audit.key_file.empty()) return;
  node.fail_missing(node.path() + ".path", "missing key 'path'",
                    "name the file of the records, such as /var/log/evenkeel/audit.jsonl");
}

}  // namespace evenkeel::config_file
