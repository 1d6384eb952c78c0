#include "evenkeel/filter/field_edits.h"

#include <algorithm>
#include <utility>

#include "evenkeel/base/ascii.h"
#include "evenkeel/http/credentials.h"

namespace evenkeel {
namespace {

/// The longest value that is written of what clients chose.
constexpr std::size_t max_value_bytes = 4096;

void append_target(std::string& out, std::string_view target) {
  if (target_holds_secret(target)) {
    out += target_with_hidden_secrets(target);
  } else {
    out += target;
  }
}

/// REQUIRES: is_field_value(field, true).
void append_value(std::string& out, AccessLogField field, const Request& request) {
  const auto& [identity, timings, outcome, plan, inference, trace] = request.info;
  switch (field) {
    case AccessLogField::request_id: out += identity.request_id; break;
    case AccessLogField::trace_id:
      if (trace != nullptr) out += trace->trace_id();
      break;
    case AccessLogField::client: out += identity.client; break;
    case AccessLogField::peer: out += identity.peer; break;
    case AccessLogField::listener: out += identity.listener; break;
    case AccessLogField::protocol: out += identity.protocol; break;
    case AccessLogField::method: out += request.method; break;
    case AccessLogField::host: out += request.authority; break;
    case AccessLogField::path: append_target(out, request.path); break;
    case AccessLogField::route: out += identity.route; break;
    case AccessLogField::pool: out += identity.pool; break;
    case AccessLogField::backend: out += outcome.backend; break;
    case AccessLogField::priority: out += to_string(identity.priority); break;
    case AccessLogField::tenant: out += identity.tenant.name; break;
    case AccessLogField::model:
      if (inference != nullptr) out += inference->request.model;
      break;
    default: break;
  }
}

std::optional<FieldEditor> editor_of(const FieldEdits& edits) {
  return edits.empty() ? std::nullopt : std::optional<FieldEditor>(edits);
}

Task<Result<Response>> edit_response(const ByRoute<FieldEditor>& editors, Request& request,
                                     Handler& next) {
  auto response = co_await next.handle(request);
  if (!response) co_return response;
  const FieldEditor* const editor = editors.find(request.info.identity);
  if (editor != nullptr) editor->apply(response->fields, request);
  co_return response;
}

}  // namespace

FieldEditor::FieldEditor(const FieldEdits& edits) : removed_(edits.remove) {
  for (const auto& [name, value] : edits.set) writes_.push_back(write_of(name, value, true));
  for (const auto& [name, value] : edits.add) writes_.push_back(write_of(name, value, false));
}

FieldEditor::Write FieldEditor::write_of(const std::string& name, const std::string& value,
                                         bool replaces) {
  Write write{.name = name, .parts = {}, .replaces = replaces};
  const auto parts = parse_template(value);
  if (!parts) return write;
  for (const TemplatePart& part : *parts) {
    write.parts.push_back({.text = std::string(part.text), .field = access_log_field(part.name)});
  }
  return write;
}

void FieldEditor::apply(Fields& fields, const Request& request) const {
  for (const std::string& name : removed_) fields.remove(name);
  for (const Write& write : writes_) {
    std::string value;
    for (const auto& part : write.parts) {
      value += part.text;
      if (part.field) append_value(value, *part.field, request);
    }
    value.resize(std::min(value.size(), max_value_bytes));
    std::ranges::replace_if(value, [](unsigned char c) { return c < 0x20 || c == 0x7f; }, '?');
    const std::string_view text = trimmed(value);
    if (write.replaces) fields.remove(write.name);
    if (!text.empty()) fields.add(write.name, fields.keep(text));
  }
}

RequestFieldsFilter::RequestFieldsFilter(const std::vector<RouteConfig>& routes)
    : editors_(routes, [](const RouteConfig& route) { return editor_of(route.request_headers); }) {}

Task<Result<Response>> RequestFieldsFilter::handle(Request& request, Handler& next) {
  const FieldEditor* const editor = editors_.find(request.info.identity);
  if (editor != nullptr) editor->apply(request.fields, request);
  return next.handle(request);
}

ResponseFieldsFilter::ResponseFieldsFilter(const std::vector<RouteConfig>& routes)
    : editors_(routes, [](const RouteConfig& route) { return editor_of(route.response_headers); }) {
}

Task<Result<Response>> ResponseFieldsFilter::handle(Request& request, Handler& next) {
  return edit_response(editors_, request, next);
}

}  // namespace evenkeel
