// Listening sockets that the process was started with (socket activation).
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "evenkeel/net/endpoint.h"

namespace evenkeel {

/// LISTEN_FDS descriptors from 3 on, if LISTEN_PID is this process, with their names in
/// LISTEN_FDNAMES (sd_listen_fds(3)). Descriptors that do not listen are left alone.
///
/// Thread: the control thread.
class InheritedSockets {
 public:
  using Variable = std::function<std::optional<std::string>(const std::string& name)>;

  /// One of the sockets; stays valid until `close_unused` closes that socket.
  struct Handle {
    int fd;
    bool operator==(const Handle&) const = default;
  };

  /// `variable` reads the environment.
  explicit InheritedSockets(const Variable& variable);
  InheritedSockets(const InheritedSockets&) = delete;
  InheritedSockets& operator=(const InheritedSockets&) = delete;
  ~InheritedSockets();

  /// The sockets that a listener can use: those of its name that no listener has claimed, and those
  /// that are bound to its endpoint.
  std::vector<Handle> find(std::string_view name, const Endpoint& endpoint) const;
  /// A descriptor of the caller's own for the socket; -1 with errno set when none is left.
  static int duplicate(Handle socket);
  /// A listener uses this socket: `find` gives it to others only for its own endpoint.
  void claim(Handle socket);
  /// Finds and claims a socket for the life of the process: `close_unused` leaves it open. Returns
  /// a descriptor of the caller's own, or -1 when there is none.
  int take(std::string_view name, const Endpoint& endpoint);

  /// Closes all sockets but these and those that were taken, so that clients are refused and do not
  /// wait for an accept that never comes. Returns the name and endpoint of each closed socket, for
  /// the log.
  std::vector<std::string> close_unused(const std::vector<Handle>& used);

 private:
  struct Inherited {
    Handle handle;
    std::string name;
    Endpoint endpoint;
    bool claimed = false;
    bool taken = false;
  };
  std::vector<Inherited> sockets_;
};

}  // namespace evenkeel
