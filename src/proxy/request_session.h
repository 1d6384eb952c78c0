// The session of one request.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "evenkeel/base/rng.h"
#include "evenkeel/http/message.h"
#include "evenkeel/pool/pool.h"
#include "proxy/session_sources.h"

namespace evenkeel {

/// Finds the session of a request, and pins it to the backend that answers. Does nothing in pools
/// that pin no sessions.
class RequestSession {
 public:
  /// `sources`: of the pool; null: it pins none. `hint` gets the session. Both outlive this object,
  /// as does the pool.
  RequestSession(const SessionSources* sources, Pool& pool, Hint& hint)
      : sources_(sources), pool_(pool), hint_(hint) {}

  void find(Request& request, Rng& rng, Instant now) {
    if (sources_ != nullptr) [[unlikely]]
      find_in_sources(request, rng, now);
  }
  /// Pins a session whose name the client does not have yet to the slot that an earlier version of
  /// the pool has found for the request.
  void on_moved(Lease& lease);
  void on_placed(const Lease& lease) {
    if (!hint_.session) [[likely]]
      return;
    if (lease.begins_session()) hint_.session->began_here = true;
    confirms_ = !lease.session_confirmed();
  }
  /// Pins what the request and the answer name to the backend, which outlives the answer. Tells the
  /// client the name of a new session.
  void on_answer(const Request& request, Response& response, const Backend& backend, Instant now) {
    if (sources_ != nullptr) [[unlikely]]
      pin(request, response, backend, now);
  }

 private:
  void find_in_sources(Request& request, Rng& rng, Instant now);
  void pin(const Request& request, Response& response, const Backend& backend, Instant now);
  void learn(const Request& request, const Response& response, const Backend& backend,
             Instant now) const;

  const SessionSources* sources_;
  Pool& pool_;
  Hint& hint_;
  std::string new_name_;  // that the client gets for its session; empty: it has one
  std::optional<std::uint64_t> response_id_;  // that a server has handed out, and the request has
  bool confirms_ = false;                     // the first answer of the backend to the session
};

}  // namespace evenkeel
