// Who asks, and through whom: x-request-id, x-forwarded-*, via. What a peer that is not a trusted
// proxy says of itself is replaced, not believed.
#pragma once

#include "evenkeel/base/rng.h"
#include "evenkeel/http/message.h"

namespace evenkeel {

/// Sets on every request what its backend may believe. Never waits.
///
/// x-request-id: taken over from anybody if it is sane (at most 128 of [A-Za-z0-9._-]), else a
/// UUIDv7. x-forwarded-for/-proto/-host and forwarded: replaced, but for trusted proxies, whose
/// x-forwarded-for is extended and whose others stay. Every other x-forwarded-*, x-real-ip and
/// x-evenkeel-* from others than trusted proxies is dropped. x-forwarded-client-cert: the client's
/// certificate, as Envoy writes it; after a trusted proxy's, instead of anybody else's. via: "1.1
/// evenkeel" is added.
class ForwardingHeadersFilter final : public Filter {
 public:
  explicit ForwardingHeadersFilter(std::uint64_t seed) : rng_(seed) {}
  Task<Result<Response>> handle(Request& request, Handler& next) override;

 private:
  Rng rng_;
};

}  // namespace evenkeel
