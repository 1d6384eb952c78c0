// Resolves host names without blocking the loop.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "evenkeel/base/clock.h"
#include "evenkeel/base/loop.h"
#include "evenkeel/base/result.h"
#include "evenkeel/base/task.h"
#include "evenkeel/config/address.h"
#include "evenkeel/net/endpoint.h"

namespace evenkeel {

/// Resolves as the system does: /etc/hosts, then the name servers of /etc/resolv.conf with its
/// search list, or the given name servers (c-ares). `localhost` and names below it are always the
/// loopback addresses.
///
/// Thread: the loop's. Outlives its tasks.
class Resolver {
 public:
  /// Each family is a query of its own and may fail alone.
  enum class Family : std::uint8_t { v4, v6 };
  struct Answer {
    std::vector<Endpoint> addresses;  ///< sorted, without duplicates; empty: the name has none
    Duration ttl{};                   ///< how long the answer is valid, as its records say
  };

  /// A server of a service (RFC 2782).
  struct Service {
    std::string host;  ///< in its normal form
    std::uint16_t port = 0;
    std::uint16_t priority = 0;  ///< those with the lowest are tried first
    std::uint16_t weight = 0;

    bool operator==(const Service&) const = default;
  };
  struct ServiceAnswer {
    std::vector<Service> services;  ///< empty: the name has none
    Duration ttl{};                 ///< how long the answer is valid, as its records say
  };

  /// Reads files and the list of name servers with the first lookup. `servers`: empty for the
  /// system's.
  explicit Resolver(Loop& loop, std::vector<Address> servers = {});
  Resolver(const Resolver&) = delete;
  Resolver& operator=(const Resolver&) = delete;
  ~Resolver();

  /// An Error says why the lookup failed; that a name does not exist or has no address is an
  /// Answer. An IP address is its own answer and never expires.
  Task<Result<Answer>> lookup(std::string host, std::uint16_t port, Family family);
  /// Both families at once, IPv4 first. An Error if one lookup failed and the other found nothing.
  Task<Result<Answer>> lookup(std::string host, std::uint16_t port);
  /// The SRV records of a name, such as "_http._tcp.llama.internal". Errors as above.
  Task<Result<ServiceAnswer>> find_services(std::string name);

 private:
  struct PendingQuery;
  Task<Result<Done>> run(PendingQuery& pending);

  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace evenkeel
