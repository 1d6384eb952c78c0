// The fields that describe a request's origin: x-request-id, x-forwarded-*, forwarded and via.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "evenkeel/base/host.h"
#include "evenkeel/base/rng.h"
#include "evenkeel/config/config.h"
#include "evenkeel/http/message.h"

namespace evenkeel {

/// The listener of a request whose peer is one of the listener's trusted proxies; else null.
const ListenerConfig* trusting_listener(const std::vector<ListenerConfig>& listeners,
                                        const RequestIdentity& identity);

/// The client of a request, as a trusted proxy of its listener names it, in front of the filter and
/// behind it. Null: no listener trusts any. Nothing: it has no address.
std::optional<IpBytes> client_of(const Request& request,
                                 const std::vector<ListenerConfig>* listeners);

/// Removes forged fields, sets true ones, and finds the address of the client. Never waits.
///
/// - x-request-id: kept if it is valid (1 to 128 of [A-Za-z0-9._-]), from any client; else replaced
///   by a UUIDv7.
/// - x-forwarded-for, -proto, -host and forwarded: replaced, except for trusted proxies. Theirs are
///   kept, and the proxy's address is appended to x-forwarded-for.
/// - every other x-forwarded-*, x-real-ip and x-evenkeel-*: dropped, except for trusted proxies.
/// - x-evenkeel-explain: dropped; `identity.asker` says who asks. Whether that one gets an
///   explanation depends on the pool.
/// - the `tenant_header` of any listener: dropped, except for trusted proxies that send it once.
/// - x-forwarded-client-cert: the client's certificate, as Envoy writes it; appended to a trusted
///   proxy's value, in place of any other.
/// - via: "1.1 evenkeel" is added.
///
/// For a request from a trusted proxy, `identity.client` becomes the client that the proxy names
/// (forwarded_client.h), and `identity.peer` the proxy.
class ForwardingHeadersFilter final : public Filter {
 public:
  /// `listeners` outlives the filter.
  ForwardingHeadersFilter(std::uint64_t seed, const std::vector<ListenerConfig>& listeners);
  Task<Result<Response>> handle(Request& request, Handler& next) override;

 private:
  static void identify_client(Request& request, const std::vector<Network>& trusted_proxies);

  Rng rng_;
  const std::vector<ListenerConfig>& listeners_;
  bool trusts_any_;
  std::vector<std::string> tenant_headers_;  // of all listeners
};

}  // namespace evenkeel
