#include "evenkeel/stats/access_log_format.h"

#include <algorithm>

#include "access_log_names.h"
#include "evenkeel/base/ascii.h"

namespace evenkeel {
namespace {

using access_log_names::names;
using Style = AccessLogLayout::Style;

bool is_name_char(char c) { return is_letter_or_digit(c) || c == '_'; }

/// The text in front of a field's value.
std::string key_text(Style style, std::string_view name) {
  if (style == Style::json) return ",\"" + std::string(name) + "\":";
  return " " + std::string(name) + "=";
}

void add_fields(AccessLogLayout& layout, const std::vector<std::string>& fields) {
  for (const std::string& name : fields) {
    layout.parts.push_back({key_text(layout.style, name), access_log_field(name)});
  }
}

void add_template(AccessLogLayout& layout, std::string_view text) {
  const auto split = parse_template(text);
  if (!split) return;
  for (const TemplatePart& part : *split) {
    layout.parts.push_back({std::string(part.text), access_log_field(part.name)});
  }
  for (std::size_t i = 0; i + 1 < layout.parts.size(); ++i) {
    const std::string& next = layout.parts[i + 1].text;
    layout.parts[i].delimiter = next.empty() ? ' ' : next.front();
  }
}

}  // namespace

std::string_view to_string(AccessLogField field) { return names[static_cast<std::size_t>(field)]; }

std::optional<AccessLogField> access_log_field(std::string_view name) {
  const auto* const found = std::ranges::find(names, name);
  if (found == names.end()) return std::nullopt;
  return static_cast<AccessLogField>(found - names.begin());
}

const std::vector<std::string>& access_log_field_names() {
  static const std::vector<std::string> all(names.begin(), names.end());
  return all;
}

std::optional<std::string> syslog_path(std::string_view path) {
  constexpr std::string_view prefix = "syslog:";
  if (path == "syslog") return "/dev/log";
  if (!path.starts_with(prefix) || path.size() == prefix.size()) return std::nullopt;
  return std::string(path.substr(prefix.size()));
}

std::optional<std::vector<TemplatePart>> parse_template(std::string_view text) {
  std::vector<TemplatePart> parts;
  while (!text.empty()) {
    const std::size_t dollar = std::min(text.find('$'), text.size());
    TemplatePart part{.text = text.substr(0, dollar), .name = {}};
    text.remove_prefix(dollar);
    if (!text.empty()) {
      text.remove_prefix(1);
      const bool has_braces = text.starts_with('{');
      if (has_braces) text.remove_prefix(1);
      const auto* const end = std::ranges::find_if_not(text, is_name_char);
      part.name = text.substr(0, static_cast<std::size_t>(end - text.begin()));
      text.remove_prefix(part.name.size());
      if (part.name.empty() || (has_braces && !text.starts_with('}'))) return std::nullopt;
      if (has_braces) text.remove_prefix(1);
    }
    parts.push_back(part);
  }
  return parts;
}

AccessLogLayout access_log_layout(std::string_view format, const std::vector<std::string>& fields) {
  AccessLogLayout layout;
  if (format == "json") {
    add_fields(layout, fields);
  } else if (format == "logfmt") {
    layout.style = Style::logfmt;
    std::vector<std::string> usual = access_log_field_names();
    usual.resize(static_cast<std::size_t>(AccessLogField::aborted) + 1);
    add_fields(layout, fields.empty() ? usual : fields);
  } else {
    layout.style = Style::text;
    add_template(layout, format == "combined" ? combined_template : format);
  }
  const auto shows = [&](AccessLogField field) {
    return std::ranges::any_of(layout.parts, [&](const auto& part) { return part.field == field; });
  };
  layout.shows_client_fields = shows(AccessLogField::user_agent) ||
                               shows(AccessLogField::referer) || shows(AccessLogField::key);
  return layout;
}

}  // namespace evenkeel
