// Small sends that wait for the end of the loop's iteration.
#pragma once

#include <coroutine>
#include <cstdint>
#include <string_view>

namespace evenkeel {

class Socket;

/// A small send on a socket in the clear that is made after the other work of the loop's
/// iteration, together with those of other connections. The first of them wakes a receiver on the
/// same machine, which then finds the others. If each were sent as soon as its request is handled,
/// the receiver would fall asleep in between and be woken each time, which is the most expensive
/// part of a send. No send waits for another iteration, nor for more than 32 other sends, events or
/// waiters.
///
/// `const auto sent = co_await BatchedSend(socket, bytes);`
/// `auto written = co_await socket.finish_write(sent, timeout);`
///
/// REQUIRES: `suits`, since the last co_await. The socket outlives it. Thread: the loop's.
class BatchedSend {
 public:
  /// What the kernel did not take, and why. `rest` is valid until the coroutine suspends again.
  struct Sent {
    std::string_view rest;
    int error = 0;         // 0, or the errno of the send, EAGAIN included
    bool was_idle = true;  // false: nothing was sent
  };

  /// True if a send of this size should be batched: there is other work to do first, and room.
  static bool suits(Socket& socket, std::size_t size);

  /// `bytes` are copied before the coroutine suspends. `only_if_idle`: nothing is sent if the peer
  /// has sent something meanwhile, or has closed.
  BatchedSend(Socket& socket, std::string_view bytes, bool only_if_idle = false)
      : socket_(socket), sent_{.rest = bytes}, only_if_idle_(only_if_idle) {}
  BatchedSend(const BatchedSend&) = delete;
  BatchedSend& operator=(const BatchedSend&) = delete;
  ~BatchedSend();

  bool await_ready() const { return false; }
  void await_suspend(std::coroutine_handle<> waiter);
  Sent await_resume() const { return sent_; }

 private:
  friend class SendBatch;

  Socket& socket_;
  Sent sent_;
  bool only_if_idle_;
  std::coroutine_handle<> waiter_;  // null: it is not in the batch
  std::uint32_t place_ = 0;         // in the batch
};

}  // namespace evenkeel
