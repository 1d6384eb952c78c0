// The sessions of pools as a document of the admin API.
#pragma once

#include "admin/asio.h"
#include "admin/documents.h"
#include "admin/message.h"

namespace evenkeel {

/// Sessions of each pool that a document lists, unless the client asks for another number.
inline constexpr std::size_t default_listed_sessions = 50;
inline constexpr std::size_t max_listed_sessions = 1000;

/// Replies to GET /api/v1/sessions: for each pool with sessions, or the one that `pool` names, how
/// many each backend has, the `limit` that were used last, and the last moves.
/// The control thread looks at the tables: it is the one that frees those of former sizes.
Awaitable<AdminReply> sessions_reply(IoContextPtr io, const RuntimeAccess& runtime,
                                     const AdminRequest& request);

}  // namespace evenkeel
