// Listening sockets that the process was started with: by a supervisor (socket activation), or by
// the process that it replaces.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "evenkeel/config/address.h"
#include "evenkeel/net/endpoint.h"

namespace evenkeel {

/// LISTEN_FDS descriptors from 3 on, if LISTEN_PID is this process, with their names in
/// LISTEN_FDNAMES (sd_listen_fds(3)). Descriptors that do not listen are left alone.
///
/// Thread: the control thread.
class InheritedSockets {
 public:
  using Variable = std::function<std::optional<std::string>(const std::string& name)>;

  /// Names one of the sockets; stays valid until `close_unused` closes that socket.
  struct Handle {
    int fd;
    bool operator==(const Handle&) const = default;
  };

  /// `variable` reads the environment.
  explicit InheritedSockets(const Variable& variable);
  InheritedSockets(const InheritedSockets&) = delete;
  InheritedSockets& operator=(const InheritedSockets&) = delete;
  ~InheritedSockets();

  /// Adds a socket of the process that this one replaces, and owns it from now on. `configured`:
  /// the address that its listener has in that process's file.
  void add(int fd, std::string name, const Address& configured);

  /// The sockets that a listener can use: those that are bound to its endpoint; a supervisor's that
  /// have its name and that no listener has claimed; the replaced process's whose listener had the
  /// same address in the file and, where the kernel chose the port (0), the same name.
  std::vector<Handle> find(std::string_view name, const Endpoint& endpoint,
                           const Address& configured = {}) const;
  /// True if the replaced process listens on this port, and evenkeel may add sockets to it.
  bool shares_port(std::uint16_t port) const;
  /// A descriptor of the caller's own for the socket; -1 with errno set when none is left.
  static int duplicate(Handle socket);
  /// A listener uses this socket: `find` gives it to others only for its own endpoint.
  void claim(Handle socket);
  /// Finds and claims a socket until `close_taken`: `close_unused` leaves it open. Returns
  /// a descriptor of the caller's own, or -1 when there is none.
  int take(std::string_view name, const Endpoint& endpoint, const Address& configured = {});

  /// Closes the sockets that were taken under this name: the process no longer listens there.
  void close_taken(std::string_view name);

  /// Closes all sockets but these and those that were taken, so that clients are refused and do not
  /// wait for an accept that never comes. Returns the name and endpoint of each closed socket, for
  /// the log.
  std::vector<std::string> close_unused(const std::vector<Handle>& used);
  /// Closes all of them, those that were taken included: another process has them.
  void close_all();

 private:
  struct Inherited {
    Handle handle;
    std::string name;
    Endpoint endpoint;
    std::optional<Address> configured;  // of the replaced process's
    bool claimed = false;
    std::string taken_as = {};  // the name under which it was taken; empty: it was not

    bool fits(std::string_view listener, const Endpoint& wanted, const Address& address) const;
  };
  std::vector<Inherited> sockets_;
};

}  // namespace evenkeel
