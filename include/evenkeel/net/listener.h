// Accepts connections on one loop; every worker has a listener of its own on the same port.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "evenkeel/base/loop.h"
#include "evenkeel/base/result.h"
#include "evenkeel/net/endpoint.h"

namespace evenkeel {

/// A listening socket, one of several on its port (SO_REUSEPORT), over which the kernel distributes
/// connections. When descriptors run out it calls `exhausted` and pauses for 100 ms instead of
/// spinning; connections wait in the kernel.
class Listener {
 public:
  using AcceptCallback = std::function<void(int fd, const Endpoint& peer)>;
  using ExhaustedCallback = std::function<void()>;
  enum class Room : std::uint8_t {
    free,     ///< accept the connection
    none,     ///< keep it, and pause until `resume`, but no longer than 100 ms; then ask again
    refused,  ///< close it: there is none for this client
  };
  /// Whether there is room for a connection.
  using RoomCallback = std::function<Room(int fd, const Endpoint& peer)>;

  /// The first socket on a port, which no process may use yet, another evenkeel included. Port 0:
  /// the kernel chooses. Errors give the reason ("Address already in use").
  static Result<int> bind(const Endpoint& endpoint);
  /// Binds one more socket on the same port.
  static Result<int> bind_shared(const Endpoint& endpoint);
  /// The same, but the kernel gives it no connection before `begin_listening`: while another
  /// process serves the port, connections must not wait for this one.
  static Result<int> bind_shared_idle(const Endpoint& endpoint);
  /// Lets a socket of `bind_shared_idle` take connections; does nothing for one that does already.
  static Result<Done> begin_listening(int fd);
  /// True if the socket listens.
  static bool is_listening(int fd);
  /// The error that `bind`, or `bind_shared`, would return now. Binds a socket without listening,
  /// which takes no connections, and closes it.
  static Result<Done> check_bind(const Endpoint& endpoint, bool shared);

  /// Whether the kernel lets as many descriptors be watched as these, besides all that are: their
  /// number is limited per user. Watches none of them when it returns.
  static Result<Done> check_watches(const std::vector<int>& fds);

  /// Accepts from a listening descriptor, which it owns. Throws std::system_error where the kernel
  /// does not let it be watched; then it does not own it. Thread: the loop's.
  Listener(Loop& loop, int fd, AcceptCallback accepted, ExhaustedCallback exhausted = nullptr,
           RoomCallback has_room = nullptr);
  Listener(const Listener&) = delete;
  ~Listener();

  /// Accepts all connections that are pending now, before the listener closes.
  void accept_pending();
  /// Ends a pause, soon.
  void resume();
  /// Accepts the connection that waits for room, if there is one, before the listener closes.
  void accept_kept();

  /// The address of a bound descriptor.
  static Endpoint local_endpoint(int fd);

 private:
  void accept_all();
  void on_readable();
  bool accept_some(int max_count);
  void take_lower_number();
  bool offer(int fd, const Endpoint& peer);
  void pause();

  Watch watch_;
  AcceptCallback accepted_;
  ExhaustedCallback exhausted_;
  RoomCallback has_room_;
  int kept_fd_ = -1;  // accepted while there was no room
  Endpoint kept_peer_;
  MethodWaiter<&Listener::on_readable> ready_{*this};
  MethodTimer<&Listener::accept_all> pause_{*this};
};

}  // namespace evenkeel
