// A connected stream socket on one loop: reads what is there, writes gathered, waits without calls.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>
#include <utility>

#include "evenkeel/base/loop.h"
#include "evenkeel/base/result.h"
#include "evenkeel/base/task.h"
#include "evenkeel/net/endpoint.h"

namespace evenkeel {

/// A stream socket. Closed when destroyed. Thread: its loop's.
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

  /// What a read brought.
  enum class Got : std::uint8_t { bytes, nothing_yet, end, failure };
  struct Read {
    Got got;
    std::size_t size = 0;
  };
  /// Reads once, without waiting. `nothing_yet`: wait with `watch().until_readable()`.
  Read read_some(char* place, std::size_t size);

  /// Sends all pieces in order, with one call where the kernel takes them. `head` and `tail` are
  /// copied when they do not fit at once; `body` must stay until the task is done. The deadline is
  /// for the kernel to take any bytes at all: it starts again with each that moves.
  Task<Result<Done>> write(std::string_view head, std::string_view body, std::string_view tail,
                           Duration patience);

  /// Sends what fits right now, without waiting; how many bytes that were.
  std::size_t write_now(std::string_view bytes);

  /// How much the kernel may hold for a peer that does not read, besides what is on its way.
  void limit_unsent(int bytes);

  /// Ends our sending (FIN); reading goes on.
  void shutdown_write();
  /// The peer sees a reset instead of an orderly end: it must not take what it has as complete.
  void reset();

  Watch& watch() { return watch_; }
  Loop& loop() { return watch_.loop(); }
  int fd() const { return watch_.fd(); }

 private:
  int unread_by_peer() const;
  Task<Result<Done>> write_rest(std::string_view head, std::string_view body, std::string_view tail,
                                std::size_t sent, Duration patience);
  std::ptrdiff_t send_pieces(std::string_view head, std::string_view body, std::string_view tail);

  Watch watch_;
};

/// Connects, within the deadline. Errors: connect_failed, connect_timeout; both replayable.
Task<Result<int>> dial(Loop& loop, const Endpoint& endpoint, Instant deadline);

}  // namespace evenkeel
