// The sessions of coding agents, which they name without being told to.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "evenkeel/http/message.h"
#include "evenkeel/picker/hint.h"

namespace evenkeel {

/// What Claude Code, Codex, OpenCode, clients of Dynamo and SGLang's router, and others send: the
/// first that the request has, of its fields, then of its body. With the session whose prompt a
/// child agent shares.
std::optional<SessionHint> find_agent_session(const Request& request);
/// True if such a name may be the value of this field.
bool is_agent_field(std::string_view name);
/// The key of the session with that name, which is none of those that other sources name.
std::uint64_t agent_session_key(std::string_view session);

}  // namespace evenkeel
