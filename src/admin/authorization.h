// Whom the admin listener answers, beyond those who can connect to it.
#pragma once

#include <optional>
#include <string>

#include "evenkeel/http/message.h"

namespace evenkeel {

/// A refusal of the admin API.
struct AdminRefusal {
  int status = 403;
  std::string message;
};

/// Nothing is told to a page in an operator's browser that is not our own: neither to one whose
/// name was made to resolve to us (DNS rebinding: Host is a name other than localhost, which an
/// address cannot be), nor to one whose script asks (its Origin is not us).
std::optional<AdminRefusal> check_origin(const Request& request);

/// A change, besides: no page of another site may ask for it, be it by a form, and it comes from
/// this machine, or with the token that stands in `token_file` (empty: there is none), in
/// `authorization: Bearer`. The file is read each time, so that a new token counts at once.
std::optional<AdminRefusal> authorize_change(const Request& request, const std::string& token_file);

}  // namespace evenkeel
