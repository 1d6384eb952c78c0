#include "evenkeel/http/cors.h"

namespace evenkeel {

std::string_view preflighted_method(const Request& request) {
  if (request.method != "OPTIONS" || !request.fields.value("origin")) return {};
  return request.fields.value("access-control-request-method").value_or("");
}

void allow_origin(const Request& request, Response& response) {
  if (!request.fields.value("origin")) return;
  response.fields.add("access-control-allow-origin", "*");
  response.fields.add("access-control-expose-headers", "*");
}

void remove_cors_fields(Fields& fields) {
  fields.remove_if(
      [](const Field& field) { return starts_with_ignore_case(field.name(), "access-control-"); });
}

}  // namespace evenkeel
