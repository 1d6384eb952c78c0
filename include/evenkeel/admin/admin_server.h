// The management plane: a thread of its own that serves the admin listener.
#pragma once

#include <cstddef>
#include <memory>

#include "evenkeel/admin/runtime_status.h"
#include "evenkeel/base/clock.h"
#include "evenkeel/base/result.h"

namespace evenkeel {

/// Limits for each client, and (`connections`, `unsent_bytes`) for all clients together.
struct AdminLimits {
  /// When there are this many, a new connection closes the one that has made no progress for
  /// longest.
  std::size_t connections = 128;
  std::size_t head_bytes = 16 * 1024;
  std::size_t body_bytes = 1024 * 1024;
  /// Maximum bytes of replies that slow clients have not read; a shared reply counts once.
  std::size_t unsent_bytes = 64 * 1024 * 1024;
  Duration handshake = std::chrono::seconds(10);  ///< of TLS
  Duration head = std::chrono::seconds(10);       ///< from the first byte of a request
  Duration body = std::chrono::seconds(30);       ///< the whole body
  Duration idle = std::chrono::seconds(75);       ///< before a request
  Duration write = std::chrono::seconds(10);      ///< without progress
  Duration close = std::chrono::seconds(1);       ///< for the client to close its side
};

/// Serves /metrics, /healthz, /readyz and /api/v1 from construction to destruction. No worker and
/// no health check waits for it, even if it is slow or attacked (docs/decisions.md, 8).
///
/// Thread: constructed and destroyed on one thread; everything that `runtime` names outlives it.
class AdminServer {
 public:
  /// Takes over `fd`, a listening socket. REQUIRES: the status has its config, its pool set
  /// and, where the config has TLS, its certificates. Errors: the socket cannot be used.
  static Result<std::unique_ptr<AdminServer>> start(int fd, RuntimeAccess runtime,
                                                    const AdminLimits& limits = {});
  AdminServer(const AdminServer&) = delete;
  AdminServer& operator=(const AdminServer&) = delete;
  /// Closes all connections and ends the thread.
  ~AdminServer();

  /// Accepts from `fd`, a listening socket, from now on, and no longer from the one before, which
  /// it closes. Open connections stay.
  void move_to(int fd);
  /// Accepts no more connections; another process accepts from the same socket.
  void retire();

 private:
  class Impl;
  explicit AdminServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace evenkeel
