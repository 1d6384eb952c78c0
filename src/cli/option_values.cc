#include "cli/option_values.h"

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

}  // namespace evenkeel
