// How many connections each client has, so that none keeps the others out.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "evenkeel/net/endpoint.h"
#include "evenkeel/wire/frontend.h"

namespace evenkeel {

/// A client is large if it has more than 5/4 of an average client's connections, and not just a
/// few.
enum class ClientSize : std::uint8_t { usual, large };

template <class T>
struct BySize {
  T usual;
  T large;

  T& of(ClientSize size) { return size == ClientSize::large ? large : usual; }
  const T& of(ClientSize size) const { return size == ClientSize::large ? large : usual; }
};

/// Counts the connections to a listener, over all workers, by client: as `client_key` tells clients
/// apart. Some clients may share a counter; a random seed decides which.
///
/// Thread: any.
class ClientConnections {
 public:
  ClientConnections();

  /// `connections`: the limit of all together; 0: none, and what is shared is what is open.
  void set_limit(std::uint32_t connections) {
    limit_.store(connections, std::memory_order_relaxed);
    update();
  }
  /// Never 0.
  ClientNumber number_of(const Endpoint& client) const;

  /// A connection has begun, or ended. Those of the client 0 are not counted.
  void opened(ClientNumber client);
  void closed(ClientNumber client);

  ClientSize size_of(ClientNumber client) const {
    const std::uint32_t open = open_[client].load(std::memory_order_relaxed);
    return open > large_.load(std::memory_order_relaxed) ? ClientSize::large : ClientSize::usual;
  }

 private:
  void update();

  const std::uint64_t seed_;
  std::array<std::atomic<std::uint32_t>, 4096> open_{};
  // Each connection that opens or closes writes the first ones, each idle one reads the last.
  alignas(64) std::atomic<std::uint32_t> limit_{0};
  std::atomic<std::uint32_t> total_{0};
  std::atomic<std::uint32_t> clients_{0};
  alignas(64) std::atomic<std::uint32_t> large_{0};  // a client with more connections is
};

}  // namespace evenkeel
