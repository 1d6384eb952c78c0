// The verbs and options of the program as a list, for what is generated from them.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace evenkeel {

struct ListedVerb {
  std::string words;  ///< "ctl drain"; empty: the program itself
  const CLI::App* app;
};

/// The program and every verb below it that help shows, each before those below it.
std::vector<ListedVerb> listed_verbs(const CLI::App& program);

/// The verbs directly below `app` that help shows.
std::vector<const CLI::App*> verbs_below(const CLI::App& app);

/// The options of a verb, in the order of its help. Those of the program include those of its
/// default verb, `run`.
std::vector<const CLI::Option*> named_options(const ListedVerb& verb);
std::vector<const CLI::Option*> positional_options(const ListedVerb& verb);

/// Every spelling of an option: "-c", "--config".
std::vector<std::string> spellings(const CLI::Option& option);

struct OptionValue {
  bool taken = false;              ///< false: a flag
  bool is_file = false;            ///< the value is the path of a file
  std::vector<std::string> words;  ///< the values that there are; empty: any
  std::string placeholder;         ///< "HOST:PORT"
};

OptionValue value_of(const CLI::Option& option);

}  // namespace evenkeel
