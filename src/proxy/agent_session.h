// The sessions of coding agents, which they name without being told to.
#pragma once

#include <optional>

#include "evenkeel/balance/hint.h"
#include "evenkeel/http/message.h"

namespace evenkeel {

/// What Claude Code, Codex, OpenCode, clients of Dynamo and SGLang's router, and others send: the
/// first that the request has, of its fields, then of its body. With the session whose prompt a
/// child agent shares.
std::optional<SessionHint> find_agent_session(const Request& request);

}  // namespace evenkeel
