// The checks of the access log's keys.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <set>

#include "config/fields.h"
#include "config/text.h"
#include "evenkeel/config/spelling.h"
#include "evenkeel/stats/access_log_format.h"

namespace evenkeel::config_file {
namespace {

const std::vector<std::string> formats{"json", "logfmt", "combined"};

/// The first name that is there twice, of those that `name_of` gives for the items.
template <class Items, class NameOf>
std::optional<std::string> repeated(const Items& items, NameOf name_of) {
  std::set<std::string> seen;
  for (const auto& each : items) {
    std::string name(name_of(each));
    if (!name.empty() && !seen.insert(name).second) return name;
  }
  return std::nullopt;
}

std::optional<ValidationError> check_template(std::string_view text) {
  if (text.size() > max_template_bytes) {
    return ValidationError{
        fmt::format("has {} bytes, a template has at most {}", text.size(), max_template_bytes),
        {}};
  }
  const auto is_control = [](unsigned char c) { return c < 0x20 && c != '\t'; };
  if (std::ranges::any_of(text, is_control)) {
    return ValidationError{"has a control character", "a template is one line, whose end is added"};
  }
  const auto parts = parse_template(text);
  if (!parts) {
    return ValidationError{"has a '$' without a name behind it",
                           "write $FIELD, or $${FIELD} where a letter follows"};
  }
  for (const TemplatePart& part : *parts) {
    std::string name(part.name);
    if (name.empty()) continue;
    if (auto problem = check_access_log_field(name)) return problem;
  }
  if (const auto twice = repeated(*parts, [](const auto& part) { return part.name; })) {
    return ValidationError{fmt::format("has ${} twice", *twice), "name each field once"};
  }
  return std::nullopt;
}

}  // namespace

std::optional<ValidationError> check_access_log_field(std::string& value) {
  if (access_log_field(value)) return std::nullopt;
  const auto& names = access_log_field_names();
  const auto meant = nearest_word(value, names);
  return ValidationError{
      fmt::format("unknown field '{}'", value),
      meant ? did_you_mean(*meant) : fmt::format("available: {}", fmt::join(names, ", "))};
}

std::optional<ValidationError> check_access_log_format(std::string& value) {
  if (std::ranges::find(formats, value) != formats.end()) return std::nullopt;
  if (value.find('$') != std::string::npos) return check_template(value);
  const auto meant = nearest_word(value, formats);
  return ValidationError{
      fmt::format("unknown format '{}', available: {}, or a template with $FIELD", value,
                  fmt::join(formats, ", ")),
      meant ? did_you_mean(*meant) : "a template is such as '$client \"$request\" $status'"};
}

std::optional<ValidationError> check_access_log_path(std::string& value) {
  if (auto problem = check_not_empty(value)) return problem;
  constexpr std::string_view prefix = "syslog:";
  constexpr std::string_view of_nginx = "server=unix:";
  if (!value.starts_with(prefix)) return std::nullopt;
  std::string_view socket = std::string_view(value).substr(prefix.size());
  if (socket.starts_with('/')) return std::nullopt;
  std::string message =
      fmt::format("'{}' names no socket of a local syslog by its absolute path", value);
  if (socket.starts_with(of_nginx)) {
    socket.remove_prefix(of_nginx.size());
    return ValidationError{
        std::move(message),
        did_you_mean(fmt::format("syslog:{}", socket.substr(0, socket.find(','))))};
  }
  if (socket.starts_with("server=")) {
    return ValidationError{std::move(message),
                           "evenkeel writes to a syslog of this machine, which may forward lines: "
                           "write 'syslog', or syslog:PATH"};
  }
  return ValidationError{std::move(message), "write 'syslog' for /dev/log, or syslog:PATH"};
}

void finish(Of<AccessLogConfig>, Node& node, AccessLogConfig& log) {
  if (log.fields.empty()) return;
  if (log.format != "json" && log.format != "logfmt") {
    node.fail("'fields' is only for the formats json and logfmt",
              "write the fields into a template as $FIELD, or remove 'fields'");
  }
  if (const auto twice = repeated(log.fields, [](const auto& name) { return name; })) {
    node.fail(fmt::format("'fields' has {} twice", *twice), "name each field once");
  }
}

void extend_schema(Of<AccessLogConfig>, Tree& schema) {
  for (std::size_t i = 0; i < schema.keys.size(); ++i) {
    if (schema.keys[i].name != "properties") continue;
    Tree& properties = schema.items[i];
    for (std::size_t k = 0; k < properties.keys.size(); ++k) {
      if (properties.keys[k].name != "fields") continue;
      Tree names =
          Words{"field", {access_log_field_names().begin(), access_log_field_names().end()}}
              .schema();
      properties.items[k].put("items", std::move(names));
    }
  }
}

}  // namespace evenkeel::config_file
