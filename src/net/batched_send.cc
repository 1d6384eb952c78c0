#include "evenkeel/net/batched_send.h"

#include <array>
#include <cassert>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "evenkeel/net/socket.h"

namespace evenkeel {

/// The batch of a thread, which runs one loop at a time.
class SendBatch : private Waiter {
 public:
  static SendBatch& of_thread() {
    thread_local SendBatch batch;
    return batch;
  }

  bool has_room(std::size_t size) const {
    return count_ < sends_.size() && size <= capacity - used_;
  }

  void add(BatchedSend& send) {
    if (bytes_ == nullptr) bytes_ = std::make_unique_for_overwrite<char[]>(capacity);
    const std::string_view given = send.sent_.rest;
    std::memcpy(bytes_.get() + used_, given.data(), given.size());
    send.sent_.rest = {bytes_.get() + used_, given.size()};
    used_ += given.size();
    send.place_ = count_;
    sends_[count_++] = &send;
    Loop& loop = send.socket_.loop();
    loop.wake_last(*this);
    if (count_ == sends_.size()) loop.hasten_last();
  }

  void remove(const BatchedSend& send) { sends_[send.place_] = nullptr; }

 private:
  static constexpr std::size_t max_sends = 32;
  static constexpr std::size_t capacity = std::size_t{64} * 1024;  // bytes

  SendBatch() : Waiter([](Waiter& self) { static_cast<SendBatch&>(self).flush(); }) {}

  /// First all sends, then what they wake: a coroutine that goes on may end any of the others.
  void flush() {
    for (std::size_t i = 0; i < count_; ++i) {
      if (sends_[i] == nullptr) continue;
      BatchedSend::Sent& sent = sends_[i]->sent_;
      sent.error = sends_[i]->socket_.send_now(sent.rest);
    }
    for (std::size_t i = 0; i < count_; ++i) {
      BatchedSend* const send = std::exchange(sends_[i], nullptr);
      if (send == nullptr) continue;
      send->place_ = BatchedSend::unqueued;
      send->wake();
    }
    count_ = used_ = 0;
  }

  std::array<BatchedSend*, max_sends> sends_{};  // null: it was dropped
  std::size_t count_ = 0;
  std::unique_ptr<char[]> bytes_;
  std::size_t used_ = 0;
};

bool BatchedSend::suits(Socket& socket, std::size_t size) {
  return socket.loop().has_more_work() && socket.tls() == nullptr &&
         SendBatch::of_thread().has_room(size);
}

BatchedSend::~BatchedSend() {
  if (place_ != unqueued) SendBatch::of_thread().remove(*this);
}

void BatchedSend::await_suspend(std::coroutine_handle<> waiter) {
  coroutine_ = waiter;
  SendBatch::of_thread().add(*this);
}

}  // namespace evenkeel
