#include "server/log_config.h"

#include <string>

#include "evenkeel/base/log.h"
#include "evenkeel/base/rfc3339.h"
#include "evenkeel/json/value.h"

namespace evenkeel {
namespace {

std::string json_line(const log::Entry& entry) {
  return json_text(
      JsonValue::Object{{"time", rfc3339(std::chrono::floor<std::chrono::seconds>(entry.time))},
                        {"level", log::to_string(entry.level)},
                        {"subsystem", entry.subsystem},
                        {"message", entry.message}});
}

}  // namespace

void apply_log_config(const LogConfig& config) {
  log::set_level(config.level);
  for (const auto& [subsystem, level] : config.levels) log::Logger(subsystem).set_level(level);
  log::set_format(config.format == LogFormat::json ? &json_line : nullptr);
}

}  // namespace evenkeel
