// The listening sockets of the process: which are open, which a new file needs.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "evenkeel/base/result.h"
#include "evenkeel/config/config.h"
#include "evenkeel/net/endpoint.h"
#include "server/worker.h"

namespace evenkeel {

/// Listening sockets that whoever started the process has opened (sd_listen_fds(3)): LISTEN_FDS of
/// them from descriptor 3 on, if LISTEN_PID is this process, with names in LISTEN_FDNAMES.
class InheritedSockets {
 public:
  using Variable = std::function<std::optional<std::string>(const std::string& name)>;

  /// `variable` reads the environment.
  explicit InheritedSockets(const Variable& variable);
  InheritedSockets(const InheritedSockets&) = delete;
  InheritedSockets& operator=(const InheritedSockets&) = delete;
  ~InheritedSockets();

  /// A descriptor, the caller's own, of the socket that listens there or is called so; -1: there is
  /// none. One that a listener took for one address is not what it needs for another. `turn`: of
  /// several that fit, each caller takes the next.
  int take(std::string_view name, const Address& address, const Endpoint& endpoint, unsigned index);
  /// Closes those that nobody at one of these addresses took: who connects there is to be refused,
  /// not left waiting. What they were, for the log.
  std::vector<std::string> close_unused(const std::vector<Address>& used);

 private:
  struct Inherited {
    int fd;
    std::string name;
    Endpoint endpoint;
    std::optional<Address> taken_for;
  };
  std::vector<Inherited> sockets_;
};

/// Opens sockets for workers; a listener that stays where it is keeps its own, whatever else of it
/// changes, so that nobody who connects meanwhile is turned away.
///
/// Thread: the control thread.
class ListenerSet {
 public:
  ListenerSet(unsigned workers, InheritedSockets& inherited)
      : workers_(workers), inherited_(inherited) {}

  /// For each worker, what it is to listen to from now on. New sockets are open when this returns;
  /// with an error, naming the listener and what is in the way, none is.
  Result<std::vector<ListenerAssignment>> open(const std::vector<ListenerConfig>& listeners);

  /// Where listeners are bound, in the file's order: "listening name=public address=...".
  std::vector<std::string> startup_lines() const;

 private:
  struct OpenListener {
    std::uint32_t number;
    std::string name;
    Address address;
    Endpoint endpoint;
  };

  Result<Endpoint> bind(const ListenerConfig& listener, std::uint32_t number,
                        std::vector<ListenerAssignment>& assignments);
  const OpenListener* find_open(const ListenerConfig& listener) const;

  unsigned workers_;
  InheritedSockets& inherited_;
  std::uint32_t next_number_ = 1;
  std::vector<OpenListener> open_;
};

}  // namespace evenkeel
