#include "config/engine_defaults.h"

#include <fmt/format.h>

#include <map>
#include <string>

#include "config/forms.h"
#include "evenkeel/config/config.h"
#include "evenkeel/inference/engine.h"

namespace evenkeel::config_file {
namespace {

std::string text_of(milliseconds value) { return DurationForm{}.tree(value, nullptr).scalar; }

std::string text_by_engine(milliseconds (*default_of)(std::string_view)) {
  const milliseconds common = default_of(generic_engine.name);
  std::map<milliseconds, std::string> others;
  for (const std::string& engine : engine_names()) {
    const milliseconds value = default_of(engine);
    if (value == common) continue;
    std::string& names = others[value];
    names += fmt::format("{}`{}`", names.empty() ? "" : ", ", engine);
  }
  std::string text = "by engine: ";
  for (const auto& [value, names] : others)
    text += fmt::format("`{}` for {}; ", text_of(value), names);
  return text + fmt::format("else `{}`", text_of(common));
}

}  // namespace

std::string_view health_timeout_text() {
  static const std::string text = text_by_engine(default_health_timeout);
  return text;
}

std::string_view keep_alive_idle_text() {
  static const std::string text = text_by_engine(default_keep_alive_idle);
  return text;
}

}  // namespace evenkeel::config_file
