#include "admin/log_levels.h"

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "evenkeel/base/log.h"
#include "evenkeel/config/spelling.h"
#include "evenkeel/json/value.h"

namespace evenkeel {
namespace {

constexpr std::string_view usage =
    "the body has \"level\", \"levels\" such as {\"health\": \"debug\"}, or both";

AdminReply unknown_level(const JsonValue& value) {
  if (value.text().empty()) return error_reply(422, usage);
  return error_reply(422, to_string(unknown_word("level", value.text(), log::level_names())));
}

}  // namespace

AdminReply log_levels() {
  JsonValue::Object levels;
  for (const std::string_view name : log::subsystem_names()) {
    const log::Level level = log::Logger(*log::subsystem_of(name)).level();
    levels.emplace_back(name, log::to_string(level));
  }
  return json_reply(200, json_text(JsonValue::Object{{"level", log::to_string(log::level())},
                                                     {"levels", std::move(levels)}}));
}

AdminReply set_log_levels(std::string_view body) {
  const auto asked = parse_json(body);
  if (!asked) return error_reply(422, usage);
  const JsonValue& common = (*asked)["level"];
  const JsonValue& own = (*asked)["levels"];
  const auto level = log::level_of(common.text());
  const bool is_empty = common.is_null() && own.members().empty();
  if (is_empty || (!own.is_null() && !own.is_object())) return error_reply(422, usage);
  if (!common.is_null() && !level) return unknown_level(common);
  std::vector<std::pair<log::Logger, log::Level>> changes;
  std::string said = level ? fmt::format(" {}", log::to_string(*level)) : std::string();
  for (const auto& [name, value] : own.members()) {
    const auto subsystem = log::subsystem_of(name);
    const auto its_level = log::level_of(value.text());
    if (!subsystem)
      return error_reply(422, to_string(unknown_word("subsystem", name, log::subsystem_names())));
    if (!its_level) return unknown_level(value);
    changes.emplace_back(*subsystem, *its_level);
    said += fmt::format(" {}={}", name, value.text());
  }
  log::admin.record(fmt::format("levels of the log until the next reload:{}", said));
  if (level) log::set_level(*level);
  for (const auto& [logger, its_level] : changes) logger.set_level(its_level);
  return log_levels();
}

}  // namespace evenkeel
