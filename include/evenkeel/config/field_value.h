// Values of header fields that a route writes: texts with $NAME for what is known of a request, by
// the names that it has in the access log.
#pragma once

#include <string>
#include <vector>

#include "evenkeel/stats/access_log_format.h"

namespace evenkeel {

/// True if the field of the access log is known when a request goes to a backend; `of_response`:
/// when its answer begins.
bool is_field_value(AccessLogField field, bool of_response);

/// The names of those fields.
std::vector<std::string> field_value_names(bool of_response);

}  // namespace evenkeel
