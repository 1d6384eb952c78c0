#include "cli/verb_list.h"

#include <algorithm>
#include <string_view>

namespace evenkeel {
namespace {

void add_verbs_below(const ListedVerb& verb, std::vector<ListedVerb>& verbs) {
  verbs.push_back(verb);
  for (const CLI::App* below : verbs_below(*verb.app)) {
    const std::string words = verb.words.empty() ? "" : verb.words + " ";
    add_verbs_below({words + below->get_name(), below}, verbs);
  }
}

std::vector<const CLI::Option*> options_where(const ListedVerb& verb, bool positional) {
  const auto wanted = [&](const CLI::Option* option) {
    return option->get_positional() == positional;
  };
  std::vector<const CLI::Option*> options = verb.app->get_options(wanted);
  if (!verb.words.empty()) return options;
  for (const CLI::Option* option : verb.app->get_subcommand("run")->get_options(wanted)) {
    const bool known = std::ranges::any_of(
        options, [&](const CLI::Option* other) { return other->get_name() == option->get_name(); });
    if (!known) options.push_back(option);
  }
  return options;
}

}  // namespace

std::vector<ListedVerb> listed_verbs(const CLI::App& program) {
  std::vector<ListedVerb> verbs;
  add_verbs_below({"", &program}, verbs);
  return verbs;
}

std::vector<const CLI::App*> verbs_below(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App* verb) { return !verb->get_group().empty(); });
}

std::vector<const CLI::Option*> named_options(const ListedVerb& verb) {
  return options_where(verb, false);
}

std::vector<const CLI::Option*> positional_options(const ListedVerb& verb) {
  return options_where(verb, true);
}

std::vector<std::string> spellings(const CLI::Option& option) {
  std::vector<std::string> names;
  for (const std::string& name : option.get_snames()) names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) names.push_back("--" + name);
  return names;
}

/// CLI11 writes the type, a colon, and what a validator says: for a list of words "{a,b}".
OptionValue value_of(const CLI::Option& option) {
  OptionValue value;
  value.taken = option.get_items_expected_max() > 0;
  value.placeholder = option.get_type_name();
  value.is_file = value.placeholder == "FILE";
  const std::size_t open = value.placeholder.find(":{");
  if (open == std::string::npos) return value;
  std::string_view words = value.placeholder;
  words = words.substr(open + 2, words.find('}', open) - open - 2);
  while (!words.empty()) {
    const std::size_t comma = std::min(words.find(','), words.size());
    value.words.emplace_back(words.substr(0, comma));
    words.remove_prefix(std::min(comma + 1, words.size()));
  }
  value.placeholder.resize(open);
  return value;
}

}  // namespace evenkeel
