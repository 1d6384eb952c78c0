// How one attempt at a backend ended, and what that says of the backend.
#pragma once

#include <cstdint>
#include <optional>

#include "evenkeel/base/clock.h"
#include "evenkeel/base/result.h"

namespace evenkeel {

/// The kinds of outcome. Only `failed` and `unreachable` count against a backend.
enum class AttemptOutcome : std::uint8_t {
  success,       ///< it answered below 400, to the last byte
  client_error,  ///< 4xx but 429: says nothing of the backend
  overloaded,    ///< 429 or 503: it works, and has too much to do
  failed,        ///< 5xx but 503, or breakage: a reset, a malformed answer, a timeout, an error
                 ///< inside a 200 stream
  unreachable,   ///< no connection: refused, timed out, TLS failed
  abandoned,     ///< no outcome: the client left or paused its upload, its deadline passed, or the
                 ///< request was not processed and may be sent again
};

/// What an attempt says of its backend, with the cause for people.
struct AttemptResult {
  AttemptOutcome outcome = AttemptOutcome::success;
  int status = 0;              ///< of the response; 0: none
  std::optional<Fault> fault;  ///< instead of a response, or what ended one
  Duration retry_after{};      ///< of an overloaded backend; 0: it did not say
  bool safe_method = false;    ///< of a GET, HEAD or OPTIONS, whose success proves little
  Instant sent{};              ///< when the head of the request was sent; Instant{}: not known
};

/// A response with this status, as far as its head tells: the body may still break.
AttemptResult classify(int status, Duration retry_after = {});
/// An attempt without a response, or whose response broke.
AttemptResult classify(const Error& error);

}  // namespace evenkeel
