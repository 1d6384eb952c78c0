#include "cli/completion.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "cli/verb_list.h"

namespace evenkeel {
namespace {

/// A word between single quotes, as bash and zsh read it.
std::string shell_word(std::string_view text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::string fish_word(std::string_view text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'' || c == '\\') out += '\\';
    out += c;
  }
  return out + "'";
}

/// A text inside the brackets of an argument of zsh's _arguments.
std::string in_brackets(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '[' || c == ']' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

/// What a script compares when it walks through the words of a line: for each verb the one above
/// it, a space, and its name.
std::vector<std::string> steps(const std::vector<ListedVerb>& verbs) {
  std::vector<std::string> steps;
  for (const ListedVerb& verb : verbs) {
    if (verb.words.empty()) continue;
    const bool is_first = verb.words.find(' ') == std::string::npos;
    steps.push_back(shell_word(is_first ? " " + verb.words : verb.words));
  }
  return steps;
}

/// The words that may follow a verb, for bash.
std::vector<std::string> words_after(const ListedVerb& verb) {
  std::vector<std::string> words;
  for (const CLI::App* below : verbs_below(*verb.app)) words.push_back(below->get_name());
  for (const CLI::Option* option : positional_options(verb)) {
    const OptionValue value = value_of(*option);
    words.insert(words.end(), value.words.begin(), value.words.end());
  }
  for (const CLI::Option* option : named_options(verb)) {
    const std::vector<std::string> names = spellings(*option);
    words.insert(words.end(), names.begin(), names.end());
  }
  return words;
}

/// True if the verb's arguments are files.
bool takes_file(const ListedVerb& verb) {
  return std::ranges::any_of(positional_options(verb),
                             [](const CLI::Option* option) { return value_of(*option).is_file; });
}

/// A case of bash for the options of a verb that take a value.
std::string bash_values(const ListedVerb& verb) {
  std::string out;
  for (const CLI::Option* option : named_options(verb)) {
    const OptionValue value = value_of(*option);
    if (!value.taken) continue;
    std::vector<std::string> patterns;
    for (const std::string& name : spellings(*option))
      patterns.push_back(shell_word(verb.words + " " + name));
    std::string action = "return";
    if (value.is_file) action = "files=yes";
    if (!value.words.empty())
      action = "words=" + shell_word(fmt::format("{}", fmt::join(value.words, " ")));
    out += fmt::format("    {}) {} ;;\n", fmt::join(patterns, " | "), action);
  }
  return out;
}

std::string zsh_argument(const CLI::Option& option) {
  const OptionValue value = value_of(option);
  std::string action;
  if (value.is_file) action = "_files";
  if (!value.words.empty()) action = fmt::format("({})", fmt::join(value.words, " "));
  if (option.get_positional()) {
    const bool is_list = option.get_expected_max() > 1;
    return shell_word(fmt::format("{}:{}:{}", is_list ? "*" : "", option.get_name(), action));
  }
  std::string help = "[" + in_brackets(option.get_description()) + "]";
  if (value.taken) {
    std::string placeholder;
    for (const char c : value.placeholder) placeholder += c == ':' ? ' ' : c;
    help += ":" + placeholder + ":" + action;
  }
  std::vector<std::string> names = spellings(option);
  if (value.taken) {
    for (std::string& name : names)
      if (name.starts_with("--")) name += '=';
  }
  if (names.size() == 1) return shell_word(names.front() + help);
  return fmt::format("'({})'{{{}}}{}", fmt::join(spellings(option), " "), fmt::join(names, ","),
                     shell_word(help));
}

std::string zsh_case(const ListedVerb& verb) {
  std::string out = fmt::format("    ({})\n", shell_word(verb.words));
  const std::vector<const CLI::App*> below = verbs_below(*verb.app);
  if (!below.empty()) {
    out += "      local -a verbs=(\n";
    for (const CLI::App* each : below)
      out += "        " + shell_word(each->get_name() + ":" + each->get_description()) + "\n";
    out += "      )\n      [[ ${words[CURRENT]} == -* ]] || { _describe verb verbs; return }\n";
  }
  out += "      _arguments";
  for (const CLI::Option* option : named_options(verb))
    out += " \\\n        " + zsh_argument(*option);
  for (const CLI::Option* option : positional_options(verb))
    out += " \\\n        " + zsh_argument(*option);
  return out + " ;;\n";
}

/// The arguments of fish's `complete` for one option.
std::string fish_option(const CLI::Option& option) {
  std::string out;
  for (const std::string& name : option.get_snames()) out += " -s " + name;
  for (const std::string& name : option.get_lnames()) out += " -l " + name;
  const OptionValue value = value_of(option);
  if (value.taken) out += value.is_file ? " -r -F" : " -x";
  if (!value.words.empty())
    out += " -a " + fish_word(fmt::format("{}", fmt::join(value.words, " ")));
  if (!option.get_positional()) out += " -d " + fish_word(option.get_description());
  return out;
}

}  // namespace

std::string bash_completion(const CLI::App& program) {
  const std::vector<ListedVerb> verbs = listed_verbs(program);
  std::string out = fmt::format(R"(# shellcheck shell=bash
# Completion of evenkeel for bash, generated by `evenkeel completion bash`.
_evenkeel() {{
  local cur=${{COMP_WORDS[COMP_CWORD]}} prev=${{COMP_WORDS[COMP_CWORD - 1]}} verb='' files='' words='' word
  # bash takes --option=value for three words.
  if [[ $cur == = ]]; then
    cur=''
  elif [[ $prev == = ]]; then
    prev=${{COMP_WORDS[COMP_CWORD - 2]}}
  fi
  for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
    case "$verb $word" in
      {}) verb="${{verb:+$verb }}$word" ;;
    esac
  done
  COMPREPLY=()
  case "$verb $prev" in
)",
                                fmt::join(steps(verbs), " | "));
  for (const ListedVerb& verb : verbs) out += bash_values(verb);
  out += R"(  esac
  [[ $words || $files ]] || case "$verb" in
)";
  for (const ListedVerb& verb : verbs)
    out += fmt::format("    {}) words={}{} ;;\n", shell_word(verb.words),
                       shell_word(fmt::format("{}", fmt::join(words_after(verb), " "))),
                       takes_file(verb) ? " files=yes" : "");
  return out + R"(  esac
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")
  if [[ $files ]]; then
    compopt -o filenames
    mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -f -- "$cur")
  fi
}
complete -F _evenkeel evenkeel
)";
}

std::string zsh_completion(const CLI::App& program) {
  const std::vector<ListedVerb> verbs = listed_verbs(program);
  std::string out = fmt::format(R"(#compdef evenkeel
# Completion of evenkeel for zsh, generated by `evenkeel completion zsh`.
compdef _evenkeel evenkeel

_evenkeel() {{
  local verb='' i
  integer at=1
  for ((i = 2; i < CURRENT; i++)); do
    case "$verb ${{words[i]}}" in
      ({}) verb="${{verb:+$verb }}${{words[i]}}"; at=i ;;
    esac
  done
  words=("${{(@)words[at,-1]}}")
  ((CURRENT -= at - 1))
  case $verb in
)",
                                fmt::join(steps(verbs), "|"));
  for (const ListedVerb& verb : verbs) out += zsh_case(verb);
  return out + R"(  esac
}

# As a file of fpath it is the function itself; sourced, it only defines it.
if [[ ${funcstack[1]} == _evenkeel ]]; then _evenkeel "$@"; fi
)";
}

std::string fish_completion(const CLI::App& program) {
  const std::vector<ListedVerb> verbs = listed_verbs(program);
  std::string out =
      fmt::format(R"(# Completion of evenkeel for fish, generated by `evenkeel completion fish`.
function __evenkeel_at
    set -l verb
    for word in (commandline -opc)[2..-1]
        switch "$verb $word"
            case {}
                set verb (string trim -- "$verb $word")
        end
    end
    test "$verb" = "$argv"
end
complete -c evenkeel -f
)",
                  fmt::join(steps(verbs), " "));
  for (const ListedVerb& verb : verbs) {
    const std::string prefix =
        fmt::format("complete -c evenkeel -n {}", fish_word("__evenkeel_at " + verb.words));
    for (const CLI::App* below : verbs_below(*verb.app)) {
      out += fmt::format("{} -a {} -d {}\n", prefix, below->get_name(),
                         fish_word(below->get_description()));
    }
    for (const CLI::Option* option : named_options(verb))
      out += prefix + fish_option(*option) + "\n";
    for (const CLI::Option* option : positional_options(verb)) {
      if (!value_of(*option).words.empty() || value_of(*option).is_file)
        out += prefix + fish_option(*option) + "\n";
    }
  }
  return out;
}

}  // namespace evenkeel
