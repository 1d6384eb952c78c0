#include "admin/message.h"

#include "evenkeel/http/fields.h"
#include "evenkeel/json/value.h"

namespace evenkeel {

std::optional<std::string_view> AdminRequest::field(std::string_view name) const {
  for (const auto& [own, value] : fields) {
    if (equals_ignore_case(own, name)) return value;
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
