// How urgent a request is, by its client and by its route.
#pragma once

#include <algorithm>
#include <optional>

#include "evenkeel/base/priority.h"
#include "evenkeel/http/message.h"

namespace evenkeel {

/// What the field `x-priority` says, if it is known. The route's priority is the most that it may
/// be then, and the default.
inline Priority priority_of(const Request& request, std::optional<Priority> of_route) {
  const auto field = request.fields.value("x-priority");
  const auto given = field ? parse_priority(*field) : std::nullopt;
  if (!given) return of_route.value_or(Priority::standard);
  return of_route ? std::max(*given, *of_route) : *given;
}

}  // namespace evenkeel
