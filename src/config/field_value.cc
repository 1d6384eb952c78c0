#include "evenkeel/config/field_value.h"

namespace evenkeel {

bool is_field_value(AccessLogField field, bool of_response) {
  switch (field) {
    case AccessLogField::request_id:
    case AccessLogField::trace_id:
    case AccessLogField::client:
    case AccessLogField::peer:
    case AccessLogField::listener:
    case AccessLogField::protocol:
    case AccessLogField::method:
    case AccessLogField::host:
    case AccessLogField::path:
    case AccessLogField::route:
    case AccessLogField::pool:
    case AccessLogField::priority:
    case AccessLogField::tenant:
    case AccessLogField::model: return true;
    case AccessLogField::backend: return of_response;
    default: return false;
  }
}

std::vector<std::string> field_value_names(bool of_response) {
  std::vector<std::string> names;
  for (const std::string& name : access_log_field_names()) {
    if (is_field_value(*access_log_field(name), of_response)) names.push_back(name);
  }
  return names;
}

}  // namespace evenkeel
