// A connected stream socket on one loop, in the clear or over TLS.
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

/// A stream socket. Its destructor closes it, over TLS after a close_notify. Thread: its loop's.
class Socket {
 public:
  /// Adopts a connected, non-blocking descriptor. Null, with the descriptor closed, if there is
  /// no memory, or the kernel cannot watch another one.
  static std::unique_ptr<Socket> adopt(Loop& loop, int fd);
  /// Does what `adopt` does, but throws std::system_error and leaves the descriptor open.
  Socket(Loop& loop, int fd);
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  ~Socket();

  /// Starts TLS as a server, before anything is read or written. Errors: tls_failed of
  /// `Side::client`; `tls_outcome` has the reason. The deadline is for the whole handshake;
  /// interrupting the watch ends it early.
  Task<Result<Done>> accept_tls(std::shared_ptr<const TlsServerContext> server, Instant deadline);
  /// Starts TLS as a client. `server_name`: the name or address that the peer's certificate must be
  /// valid for. `sessions`: sessions to resume, and the place for new ones; null: none. Errors:
  /// tls_failed, connect_timeout; both `not_processed`.
  Task<Result<Done>> connect_tls(std::shared_ptr<const TlsClientContext> client,
                                 std::string server_name, AlpnOffer offer,
                                 std::shared_ptr<TlsSessionCache> sessions, Instant deadline);
  /// What the handshake negotiated; null in the clear.
  const TlsConnectionInfo* tls() const;
  /// How the handshake ended. REQUIRES: one was begun.
  TlsOutcome tls_outcome() const;
  /// Returns to the clear after a failed handshake.
  void discard_tls();

  /// The result of a read. Over TLS, `end` means close_notify; a TCP close without it may be a
  /// truncation by a third party and is a `failure`.
  enum class ReadStatus : std::uint8_t { bytes, would_block, end, failure };
  struct Read {
    ReadStatus status;
    std::size_t size = 0;
  };
  /// Reads once, without waiting. `would_block`: wait with `watch().until_readable()`.
  Read read_some(char* place, std::size_t size);

  /// Sends all pieces in order, with one system call if the kernel takes them. `head` and `tail`
  /// are copied when they do not fit at once; `body` must stay valid until the task is done.
  /// `timeout` is for the kernel to take any bytes at all: it starts again whenever some are taken.
  Task<Result<Done>> write(std::string_view head, std::string_view body, std::string_view tail,
                           Duration timeout);

  /// Sends what fits without waiting; returns the number of bytes sent.
  std::size_t write_now(std::string_view bytes);

  /// Limits what the kernel holds for a slow peer, in bytes that are not yet sent.
  void limit_unsent(int bytes);

  /// True if an idle connection is open and has received nothing. Calls the kernel only if an event
  /// was reported, or always with `ask_kernel`. Over TLS, session tickets and the like are read
  /// and do not count.
  bool is_idle_and_open(bool ask_kernel);

  /// Ends sending (close_notify, FIN); reading goes on.
  void shutdown_write();
  /// Closes with a reset, so that the peer does not take what it has for a complete message.
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

/// Connects within the deadline. The kernel ends the connection when the server acknowledges
/// nothing for 60 s, neither bytes nor the probes that it sends when there are none. Errors:
/// connect_failed, connect_timeout; overloaded if this process has no descriptor, memory or local
/// port left (Side::proxy); all `not_processed`.
Task<Result<int>> dial(Loop& loop, const Endpoint& endpoint, Instant deadline);

}  // namespace evenkeel
