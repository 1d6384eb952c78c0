// Host names to addresses, without keeping a loop waiting.
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

/// Asks as the system would: /etc/hosts, then the name servers of /etc/resolv.conf with its search
/// list, or those that it is given (c-ares).
///
/// Thread: the loop's. Outlives its tasks.
class Resolver {
 public:
  /// Each is a question of its own to the name server, and may fail alone.
  enum class Family : std::uint8_t { v4, v6 };
  struct Answer {
    std::vector<Endpoint> addresses;  ///< each once, in order; empty: the name has none
    Duration ttl{};                   ///< how long the answer is good, as it says itself
  };

  /// Files and name servers are read when the first question is asked. `servers`: empty for the
  /// system's.
  explicit Resolver(Loop& loop, std::vector<Address> servers = {});
  Resolver(const Resolver&) = delete;
  Resolver& operator=(const Resolver&) = delete;
  ~Resolver();

  /// An error says why nobody knows; that a name does not exist, or has no address, is an answer.
  /// An IP address, in text, is its own answer for ever.
  Task<Result<Answer>> lookup(std::string host, std::uint16_t port, Family family);
  /// Both families at once, IPv4 first. An error where one is not known and the other is empty.
  Task<Result<Answer>> lookup(std::string host, std::uint16_t port);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace evenkeel
