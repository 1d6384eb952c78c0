// How urgent a request is, by its client, its tenant and its route.
#pragma once

#include <algorithm>
#include <optional>

#include "evenkeel/base/priority.h"
#include "evenkeel/http/message.h"

namespace evenkeel {

/// What the field `x-priority` says, if it is known. The priorities of the tenant and the route are
/// the most that it may be then, and the lower one is the default.
inline Priority priority_of(const Request& request, std::optional<Priority> of_route) {
  const auto field = request.fields.value(FieldId::x_priority);
  const auto given = field ? parse_priority(*field) : std::nullopt;
  const auto of_tenant = request.info.identity.tenant.max_priority;
  std::optional<Priority> limit = of_route;
  if (of_tenant) limit = std::max(*of_tenant, of_route.value_or(*of_tenant));
  if (!given) return limit.value_or(Priority::standard);
  return limit ? std::max(*given, *limit) : *given;
}

}  // namespace evenkeel
