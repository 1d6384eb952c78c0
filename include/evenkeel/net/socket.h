// A connected stream socket on one loop: reads what is there, writes gathered, waits without calls;
// in the clear, or in TLS once a handshake was made.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "evenkeel/base/loop.h"
#include "evenkeel/base/result.h"
#include "evenkeel/base/task.h"
#include "evenkeel/net/endpoint.h"
#include "evenkeel/net/tls.h"

namespace evenkeel {

class TlsState;

/// A stream socket. Closed when destroyed; over TLS the peer is told so before (close_notify).
/// Thread: its loop's.
class Socket {
 public:
  /// Takes over a connected, non-blocking descriptor; null, and the descriptor closed, where the
  /// kernel has no room to watch another.
  static std::unique_ptr<Socket> adopt(Loop& loop, int fd);
  /// As `adopt`, but throws std::system_error and leaves the descriptor open.
  Socket(Loop& loop, int fd);
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  ~Socket();

  /// Speaks TLS from here on, as a server. Nothing was read or written before. Errors: tls_failed
  /// of `Side::client`; `tls_outcome` says which. The deadline is for all of it; who interrupts its
  /// watch ends it before.
  Task<Result<Done>> accept_tls(std::shared_ptr<const TlsServerContext> server, Instant deadline);
  /// As a client. `server_name`: what the peer's certificate must be for, a name or an address.
  /// `sessions`: where to find a session to resume and to put new ones; null: nowhere. Errors:
  /// tls_failed, connect_timeout; both replayable.
  Task<Result<Done>> connect_tls(std::shared_ptr<const TlsClientContext> client,
                                 std::string server_name, AlpnOffer offer,
                                 std::shared_ptr<TlsSessionCache> sessions, Instant deadline);
  /// What the handshake agreed upon; null in the clear.
  const TlsConnectionInfo* tls() const;
  /// How the handshake ended. REQUIRES: one was begun.
  TlsOutcome tls_outcome() const;
  /// Speaks in the clear again, after a handshake that failed.
  void discard_tls();

  /// What a read brought. Over TLS, an `end` is one that the peer meant (close_notify): a
  /// connection that was only closed below may have been cut by somebody else, a `failure`.
  enum class ReadStatus : std::uint8_t { bytes, would_block, end, failure };
  struct Read {
    ReadStatus got;
    std::size_t size = 0;
  };
  /// Reads once, without waiting. `would_block`: wait with `watch().until_readable()`.
  Read read_some(char* place, std::size_t size);

  /// Sends all pieces in order, with one call where the kernel takes them. `head` and `tail` are
  /// copied when they do not fit at once; `body` must stay until the task is done. The deadline is
  /// for the kernel to take any bytes at all: it starts again with each that moves.
  Task<Result<Done>> write(std::string_view head, std::string_view body, std::string_view tail,
                           Duration timeout);

  /// Sends what fits right now, without waiting; how many bytes that were.
  std::size_t write_now(std::string_view bytes);

  /// How much the kernel may hold for a peer that does not read, besides what is on its way.
  void limit_unsent(int bytes);

  /// Nothing has come on a connection on which nothing should, and it has not ended. Asks the
  /// kernel only when there may be something, or always where `thoroughly`. Over TLS, session
  /// tickets and the like are taken off and count as nothing.
  bool is_idle_and_open(bool probe_kernel);

  /// Ends our sending (close_notify, FIN); reading goes on.
  void shutdown_write();
  /// The peer sees a reset instead of an orderly end: it must not take what it has as complete.
  void reset();

  Watch& watch() { return watch_; }
  Loop& loop() { return watch_.loop(); }
  int fd() const { return watch_.fd(); }

 private:
  int send_queue_bytes() const;
  Task<Result<Done>> write_rest(std::string_view head, std::string_view body, std::string_view tail,
                                std::size_t sent, Duration timeout);
  std::ptrdiff_t send_pieces(std::string_view head, std::string_view body, std::string_view tail);
  Task<Result<Done>> handshake_tls(Side peer, Instant deadline);
  Task<Result<Done>> write_encrypted(std::string_view head, std::string_view body,
                                     std::string_view tail, Duration timeout);
  Task<Result<Done>> write_rest_encrypted(std::string_view head, std::string_view body,
                                          std::string_view tail, Duration timeout);

  Watch watch_;
  std::unique_ptr<TlsState> tls_;  // null: in the clear
};

/// Connects, within the deadline. Errors: connect_failed, connect_timeout; both replayable.
Task<Result<int>> dial(Loop& loop, const Endpoint& endpoint, Instant deadline);

}  // namespace evenkeel
