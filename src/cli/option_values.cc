#include "cli/option_values.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "evenkeel/config/spelling.h"

namespace evenkeel {

CLI::Option* add_duration_option(CLI::App& verb, const std::string& name, const std::string& help,
                                 std::function<void(Duration)> set) {
  const auto refuse = [](const std::string& text) -> std::string {
    if (parse_duration(text)) return {};
    return "'" + text + "' is not a duration; write 30s, 500ms or 2m";
  };
  return verb
      .add_option_function<std::string>(
          name, [set = std::move(set)](const std::string& text) { set(*parse_duration(text)); },
          help)
      ->check(refuse)
      ->type_name("DURATION");
}

CLI::Validator above_zero() {
  const auto refuse = [](const std::string& text) -> std::string {
    double number = 0;
    if (CLI::detail::lexical_cast(text, number) && std::isfinite(number) && number > 0) return {};
    return "'" + text + "' is not a number above 0";
  };
  return {refuse, "NUMBER"};
}

CLI::Validator one_of(const std::vector<std::string>& words) {
  const auto refuse = [words](const std::string& text) -> std::string {
    if (std::ranges::find(words, text) != words.end()) return {};
    const auto meant = nearest_word(text, words);
    return fmt::format("'{}' is not one of {}{}", text, fmt::join(words, ", "),
                       meant ? "; did you mean '" + *meant + "'?" : "");
  };
  return {refuse, fmt::format("{{{}}}", fmt::join(words, ","))};
}

std::array<CLI::Option*, 3> add_tls_options(CLI::App& verb, AdminTarget& target) {
  auto* ca = verb.add_option("--ca-file", target.ca_file,
                             "With https://: authorities to trust; default: the system's");
  auto* cert =
      verb.add_option("--cert", target.cert_file,
                      "With https://: certificate to present, for a listener with client_ca");
  auto* key = verb.add_option("--key", target.key_file,
                              "Private key of that certificate; default: in the same file");
  for (CLI::Option* option : {ca, cert, key}) option->type_name("FILE");
  return {ca, cert, key};
}

}  // namespace evenkeel
