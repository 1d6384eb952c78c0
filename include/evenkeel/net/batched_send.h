// Small writes that wait for the end of the loop's iteration.
#pragma once

#include <cstddef>
#include <string_view>

#include "evenkeel/base/loop.h"

namespace evenkeel {

class Socket;

/// A small write to a socket in the clear, sent at the end of the loop's iteration with those of
/// other connections. A receiver on the same machine is woken by the first of them and finds the
/// others, where sends with a request's work between them would wake it each time: that is the
/// dearest part of a send. The iteration does not wait for anything, and no send waits for more
/// than 32 others.
///
/// `auto sent = co_await BatchedSend(socket, bytes); auto written = socket.finish_write(sent,
/// timeout);`
///
/// REQUIRES: `suits`. The socket outlives it.
class BatchedSend : private CoroutineWaiter {
 public:
  /// What the kernel took. `rest` is valid until the coroutine suspends again.
  struct Sent {
    std::string_view rest;
    int error = 0;  // errno; EAGAIN too is one
  };

  /// Whether a write of this size should be batched: there is room, and other work to do first.
  static bool suits(Socket& socket, std::size_t size);

  /// `bytes` are copied before the coroutine suspends.
  BatchedSend(Socket& socket, std::string_view bytes) : socket_(socket), sent_{bytes} {}
  BatchedSend(const BatchedSend&) = delete;
  BatchedSend& operator=(const BatchedSend&) = delete;
  ~BatchedSend();

  bool await_ready() const { return false; }
  void await_suspend(std::coroutine_handle<> waiter);
  Sent await_resume() const { return sent_; }

 private:
  friend class SendBatch;
  static constexpr std::size_t unqueued = ~std::size_t{0};

  Socket& socket_;
  Sent sent_;
  std::size_t place_ = unqueued;  // in the batch
};

}  // namespace evenkeel
