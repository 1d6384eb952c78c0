#include "server/client_connections.h"

#include <algorithm>
#include <limits>

#include "evenkeel/base/client_key.h"
#include "evenkeel/base/hash.h"
#include "evenkeel/base/rng.h"

namespace evenkeel {
namespace {

/// A client with less than this share is never large, whatever others have.
constexpr std::uint32_t min_large_share = 256;

/// A client that is alone takes nothing from others.
constexpr std::uint32_t alone = std::numeric_limits<std::uint32_t>::max();

}  // namespace

ClientConnections::ClientConnections() : seed_(random_seed()) {}

ClientNumber ClientConnections::number_of(const Endpoint& client) const {
  const std::uint64_t hash = hash_of(seed_, client_key(client.ip()));
  return static_cast<ClientNumber>(1 + hash % (open_.size() - 1));
}

void ClientConnections::opened(ClientNumber client) {
  if (client == 0) return;
  if (open_[client].fetch_add(1, std::memory_order_relaxed) == 0) {
    clients_.fetch_add(1, std::memory_order_relaxed);
  }
  total_.fetch_add(1, std::memory_order_relaxed);
  update();
}

void ClientConnections::closed(ClientNumber client) {
  if (client == 0) return;
  if (open_[client].fetch_sub(1, std::memory_order_relaxed) == 1) {
    clients_.fetch_sub(1, std::memory_order_relaxed);
  }
  total_.fetch_sub(1, std::memory_order_relaxed);
  update();
}

/// Written only when it changes: workers read it for each request.
void ClientConnections::update() {
  const std::uint32_t limit = limit_.load(std::memory_order_relaxed);
  const std::uint32_t clients = clients_.load(std::memory_order_relaxed);
  const std::uint64_t shared = limit != 0 ? limit : total_.load(std::memory_order_relaxed);
  std::uint32_t large = alone;
  if (clients > 1) {
    large =
        static_cast<std::uint32_t>(std::max(shared * 5 / 4 / clients, shared / min_large_share));
  }
  if (large != large_.load(std::memory_order_relaxed)) {
    large_.store(large, std::memory_order_relaxed);
  }
}

}  // namespace evenkeel
