// The listening sockets of the process: which are open, and which a new configuration needs.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "evenkeel/base/loop.h"
#include "evenkeel/base/result.h"
#include "evenkeel/base/task.h"
#include "evenkeel/config/config.h"
#include "evenkeel/net/endpoint.h"
#include "evenkeel/upgrade/inherited_sockets.h"
#include "server/listener_assignment.h"

namespace evenkeel {

/// The addresses of host names that listeners use, or why there is none; their ports mean nothing.
using ListenerHosts = std::map<std::string, Result<Endpoint>>;

/// Blocks. Thread: any.
ListenerHosts resolve_listener_hosts(const std::vector<std::string>& hosts);
/// The same without blocking, all at once, within 2 s. Errors: the client has left.
Task<Result<ListenerHosts>> look_up_listener_hosts(Loop& loop, std::vector<std::string> hosts,
                                                   std::stop_token left);

/// Where to bind. Looks up no name: `hosts` must have it, unless it is an IP address.
Result<Endpoint> endpoint_of(const Address& address, const ListenerHosts& hosts);

/// An open listener: the socket's handle and where it is bound.
struct OpenListener {
  ListenerId id;
  std::string name;
  Address address;                                  ///< as configured; its port may be 0
  Endpoint endpoint;                                ///< as bound
  std::vector<InheritedSockets::Handle> inherited;  ///< the sockets that it was started with
  std::vector<int> fds;                             ///< of all workers, which own them
  std::shared_ptr<ClientConnections> clients;
};

/// The listeners of a new configuration, with their new sockets open and not yet used. Closes the
/// new sockets when it is dropped before `ListenerSet::commit`.
class PreparedListeners {
 public:
  explicit PreparedListeners(unsigned workers) : assignments_(workers) {}
  PreparedListeners(PreparedListeners&&) noexcept = default;
  PreparedListeners& operator=(PreparedListeners&&) = delete;
  ~PreparedListeners();

 private:
  friend class ListenerSet;
  std::vector<OpenListener> open_;
  std::vector<ListenerAssignment> assignments_;
};

/// Opens one socket per worker and listener; of the sockets that it was started with a worker may
/// get several, since a connection that the kernel gave to one of them is in no other. A listener
/// whose address stays keeps its sockets, whatever else of it changes, so that a reload refuses no
/// connection.
///
/// Thread: the control thread.
class ListenerSet {
 public:
  ListenerSet(unsigned workers, InheritedSockets& inherited)
      : workers_(workers), inherited_(inherited) {}

  /// The host names that `prepare` and `check` need resolved.
  std::vector<std::string> hosts_to_resolve(const std::vector<ListenerConfig>& listeners) const;
  /// Opens the sockets that these listeners need and that are not open. Errors name the listener
  /// and the cause; then no new socket is open. `reached`: the number of the listener that fails;
  /// after the last, all together do.
  Result<PreparedListeners> prepare(const std::vector<ListenerConfig>& listeners,
                                    const ListenerHosts& hosts, std::size_t& reached);
  /// What `prepare` would fail with, as far as that can be known without listening: a new socket
  /// that listened for a moment would take connections and reset them.
  Result<Done> check(const std::vector<ListenerConfig>& listeners, const ListenerHosts& hosts,
                     std::size_t& reached) const;
  /// Makes the prepared listeners the open ones. Returns what each worker listens on from now on.
  std::vector<ListenerAssignment> commit(PreparedListeners prepared);

  /// The open listeners, in the order of the configuration.
  const std::vector<OpenListener>& open() const { return open_; }
  /// True if another socket of this process, or of the one that it replaces, may be on the port.
  bool shares_port(const Endpoint& endpoint) const;

 private:
  Result<OpenListener> open_new(const ListenerConfig& listener, const Endpoint& endpoint,
                                std::vector<ListenerAssignment>& assignments);
  Result<int> open_socket(const OpenListener& listener, std::size_t index, bool shared);
  const OpenListener* find_open(const ListenerConfig& listener) const;

  unsigned workers_;
  InheritedSockets& inherited_;
  std::uint32_t last_id_ = 0;
  std::vector<OpenListener> open_;
};

}  // namespace evenkeel
