#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "config/validation.h"
#include "evenkeel/config/selector.h"
#include "evenkeel/config/spelling.h"

namespace evenkeel::config_file {
namespace {

// What a selector has wrong, and how to mend it.
struct LabelMistake {
  std::string message;
  std::string help;
};

// "the labels of its backends are gpu, version"
std::string meant_or_all(const std::string& word, const std::set<std::string>& known,
                         const std::string& list) {
  const std::vector<std::string> words(known.begin(), known.end());
  const auto meant = nearest_word(word, words);
  if (meant) return fmt::format("did you mean '{}'?", *meant);
  return list_of(list, words);
}

// A label or value that no backend of the pool has, or a combination.
std::optional<LabelMistake> find_mistake(const PoolConfig& pool, const BackendLabels& labels) {
  if (pool.discover) return std::nullopt;  // those of the backends that it finds are not known
  if (std::ranges::any_of(pool.backends, [&](const BackendConfig& backend) {
        return has_labels(backend.labels, labels);
      })) {
    return std::nullopt;
  }
  for (const auto& [label, value] : labels) {
    std::set<std::string> known;
    std::set<std::string> values;
    for (const BackendConfig& backend : pool.backends) {
      for (const auto& [name, text] : backend.labels) {
        known.insert(name);
        if (name == label) values.insert(text);
      }
    }
    const std::string add = fmt::format("give backends 'labels: {{{}: {}}}'", label, value);
    if (known.empty()) {
      return LabelMistake{fmt::format("the backends of the pool '{}' have no labels", pool.name),
                          add};
    }
    if (values.empty()) {
      return LabelMistake{
          fmt::format("no backend of the pool '{}' has a label '{}'", pool.name, label),
          meant_or_all(label, known, "their labels are")};
    }
    if (!values.contains(value)) {
      return LabelMistake{
          fmt::format("no backend of the pool '{}' has {}={}", pool.name, label, value),
          meant_or_all(value, values, fmt::format("their values of '{}' are", label))};
    }
  }
  return LabelMistake{
      fmt::format("no backend of the pool '{}' has all of {}", pool.name, selector_of(labels)),
      "each of them has some backend, none has all"};
}

void check_labels(const Config& config, const std::string& path, const RouteTarget& target,
                  ParseContext& context) {
  if (target.labels.empty()) return;
  const auto pool = std::ranges::find(config.pools, target.pool, &PoolConfig::name);
  if (pool == config.pools.end()) return;
  auto mistake = find_mistake(*pool, target.labels);
  if (!mistake) return;
  context.add(path + "." + selector_of(target.labels), std::move(mistake->message),
              std::move(mistake->help));
}

}  // namespace

void check_splits(const Config& config, ParseContext& context) {
  for (const auto& [route_path, route] : items_of("routes", config.routes)) {
    const auto& targets = route.targets;
    const std::string path = route_path + ".split";
    const bool all_zero =
        !targets.empty() &&
        std::ranges::all_of(targets, [](const RouteTarget& target) { return target.weight == 0; });
    if (all_zero && !context.report.has_problem(path)) {
      context.add(path,
                  targets[0].labels.empty() ? "all shares are 0: no pool would get a request"
                                            : "all shares are 0: no backend would get a request",
                  "give one of them a share above 0");
    }
    for (const RouteTarget& target : targets) check_labels(config, path, target, context);
  }
}

}  // namespace evenkeel::config_file
