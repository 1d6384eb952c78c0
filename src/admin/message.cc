#include "admin/message.h"

#include <algorithm>

#include "evenkeel/base/path.h"
#include "evenkeel/http/fields.h"
#include "evenkeel/json/value.h"

namespace evenkeel {

std::optional<std::string_view> AdminRequest::field(std::string_view name) const {
  for (const auto& [own, value] : fields) {
    if (equals_ignore_case(own, name)) return value;
  }
  return std::nullopt;
}

std::optional<std::string> AdminRequest::parameter(std::string_view name) const {
  for (std::string_view rest = query(); !rest.empty();) {
    const std::string_view pair = rest.substr(0, rest.find('&'));
    rest.remove_prefix(std::min(rest.size(), pair.size() + 1));
    const auto equals = pair.find('=');
    if (pair.substr(0, equals) != name) continue;
    return equals == std::string_view::npos ? std::string()
                                            : percent_decoded(pair.substr(equals + 1));
  }
  return std::nullopt;
}

AdminReply text_reply(int status, std::string text) {
  return {.status = status,
          .content_type = "text/plain; charset=utf-8",
          .body = std::make_shared<const std::string>(std::move(text))};
}

AdminReply json_reply(int status, std::string json) {
  json += '\n';
  return {.status = status, .body = std::make_shared<const std::string>(std::move(json))};
}

AdminReply error_reply(int status, std::string_view message) {
  return json_reply(status, json_text(JsonValue::Object{{"error", message}}));
}

}  // namespace evenkeel
