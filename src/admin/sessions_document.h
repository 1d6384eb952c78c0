// The sessions of pools as a document of the admin API.
#pragma once

#include <memory>

#include "admin/asio.h"
#include "admin/documents.h"
#include "admin/message.h"
#include "admin/sessions_cache.h"

namespace evenkeel {

/// Sessions of each pool that a document lists, unless the client asks for another number.
inline constexpr std::size_t default_listed_sessions = 50;

/// Replies to GET /api/v1/sessions: for each pool with sessions, or the one that `pool` names, how
/// many each backend has, the `limit` that were used last, and the last moves.
Awaitable<AdminReply> sessions_reply(IoContextPtr io, const RuntimeAccess& runtime,
                                     std::shared_ptr<SessionsCache> cache,
                                     const AdminRequest& request);

}  // namespace evenkeel
