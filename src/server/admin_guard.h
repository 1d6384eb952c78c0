// Whom the admin listener answers, beyond those who can connect to it.
#pragma once

#include "evenkeel/http/message.h"

namespace evenkeel {

/// The request may be that of a page in an operator's browser: its Host or its Origin is a name
/// other than localhost, which anybody can have resolve to loopback (DNS rebinding). An address
/// cannot be such a name.
bool foreign(const Request& request);

}  // namespace evenkeel
