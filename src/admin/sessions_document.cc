#include "admin/sessions_document.h"

#include <fmt/format.h>

#include <array>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "admin/on_loop.h"
#include "evenkeel/base/decimal.h"
#include "evenkeel/base/rng.h"
#include "evenkeel/net/sha256.h"

namespace evenkeel {
namespace {

constexpr Duration list_timeout = std::chrono::seconds(5);

/// A session is shown by a hash of its name, never by the name: that may be a credential. The
/// secret in it keeps others from trying names until one has that hash, as they could with the key
/// of the table.
std::string key_text(std::uint64_t key) {
  static const std::array<std::uint64_t, 4> secret = {random_seed(), random_seed(), random_seed(),
                                                      random_seed()};
  const std::string text = fmt::format("{:016x}{:016x}{:016x}{:016x}{:016x}", secret[0], secret[1],
                                       secret[2], secret[3], key);
  std::uint64_t hash = 0;
  std::memcpy(&hash, sha256(text).data(), sizeof hash);
  return fmt::format("{:016x}", hash);
}

JsonValue::List newest_of(const SessionListing& listing, std::size_t limit) {
  JsonValue::List sessions;
  for (const SessionListing::Session& each : listing.newest) {
    if (sessions.size() == limit) break;
    JsonValue session;
    session.add("session", key_text(each.key));
    session.add("backend", text_or_null(each.backend));
    session.add("idle_seconds", each.idle.count());
    session.add("confirmed", each.confirmed);
    session.add("has_state", each.has_state);
    sessions.push_back(std::move(session));
  }
  return sessions;
}

JsonValue::List moves_of(const SessionListing& listing, std::size_t limit) {
  JsonValue::List moves;
  for (const SessionListing::Move& each : listing.moves) {
    if (moves.size() == limit) break;
    JsonValue move;
    move.add("session", key_text(each.key));
    move.add("from", text_or_null(each.from));
    move.add("to", text_or_null(each.to));
    move.add("age_seconds", seconds_of(each.age));
    moves.push_back(std::move(move));
  }
  return moves;
}

JsonValue pool_document(const PoolState& pool, const PoolSessions& sessions, std::size_t limit) {
  const AffinityConfig& spec = pool.affinity()->spec();
  const auto& [stats, listing] = sessions;
  JsonValue::List backends;
  for (std::size_t i = 0; i < pool.backends().size(); ++i) {
    backends.emplace_back(
        JsonValue::Object{{"id", pool.backends()[i]->id()}, {"sessions", listing.by_backend[i]}});
  }
  JsonValue document;
  document.add("pool", pool.config().name);
  document.add("mode", spec.mode == AffinityMode::soft ? "soft" : "hard");
  document.add("ttl_seconds", seconds_of(spec.ttl));
  document.add("max_sessions", spec.max_sessions);
  document.add("sessions", stats.sessions);
  document.add("hits_total", stats.hits);
  document.add("misses_total", stats.misses);
  document.add("moves_total", stats.moves);
  document.add("evictions_total", stats.evictions);
  document.add("backends", std::move(backends));
  document.add("newest", newest_of(listing, limit));
  document.add("moves", moves_of(listing, limit));
  return document;
}

using Pools = std::vector<std::shared_ptr<const PoolState>>;

/// The pools with sessions, or the one of this name; the reply where there is none.
std::variant<Pools, AdminReply> find_pools(const PoolSet& pool_set,
                                           const std::optional<std::string>& name) {
  bool is_known = false;
  Pools pools;
  for (const PoolSet::PoolEntry& entry : pool_set.pools()) {
    if (name && entry.state->config().name != *name) continue;
    is_known = true;
    if (entry.state->affinity() != nullptr) pools.push_back(entry.state);
  }
  if (name && !is_known) return error_reply(404, fmt::format("there is no pool '{}'", *name));
  if (name && pools.empty()) {
    return error_reply(404,
                       fmt::format("pool '{}' keeps no sessions: it has no `affinity`", *name));
  }
  return pools;
}

}  // namespace

Awaitable<AdminReply> sessions_reply(IoContextPtr io, const RuntimeAccess& runtime,
                                     std::shared_ptr<SessionsCache> cache,
                                     const AdminRequest& request) {
  std::size_t limit = default_listed_sessions;
  if (const auto text = request.parameter("limit")) {
    const auto asked = parse_number<std::size_t>(*text);
    if (!asked || *asked > max_listed_sessions) {
      co_return error_reply(
          422, fmt::format("`limit` is a whole number from 0 to {}", max_listed_sessions));
    }
    limit = *asked;
  }
  auto found = find_pools(*RuntimeView(runtime).status->pool_set, request.parameter("pool"));
  if (auto* const refusal = std::get_if<AdminReply>(&found)) co_return std::move(*refusal);
  const Pools& pools = std::get<Pools>(found);
  const auto look = [cache, pools] {
    std::vector<PoolSessionsPtr> sessions;
    for (const auto& pool : pools) sessions.push_back(cache->sessions_of(pool));
    return sessions;
  };
  const auto sessions = co_await on_loop(io, *runtime.control_loop, look, list_timeout);
  if (!sessions) co_return error_reply(503, "the control thread does not answer; try again");
  JsonValue::List documents;
  for (std::size_t i = 0; i < pools.size(); ++i)
    documents.push_back(pool_document(*pools[i], *(*sessions)[i], limit));
  co_return json_reply(200, json_text(documents));
}

}  // namespace evenkeel
