// What one worker listens on, as the control thread hands it over.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "evenkeel/config/config.h"
#include "server/client_connections.h"

namespace evenkeel {

/// The handle of a listening socket: the same in every worker, never used again by another one.
/// A listener keeps its handle for as long as it keeps its address, whatever else of it changes.
enum class ListenerId : std::uint32_t {};

/// All listeners of one worker. A listener that is not in it accepts no more connections.
struct ListenerAssignment {
  struct Entry {
    ListenerConfig config;
    ListenerId id;
    std::vector<int> fds;  ///< new sockets, which the worker then owns; none: it has those of `id`
    std::shared_ptr<ClientConnections> clients;  ///< of all workers
  };
  std::vector<Entry> entries;
};

}  // namespace evenkeel
