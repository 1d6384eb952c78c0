#include "evenkeel/net/batched_send.h"

#include <array>
#include <cassert>
#include <cstring>
#include <memory>
#include <new>
#include <utility>

#include "evenkeel/net/socket.h"

namespace evenkeel {

/// The batch of a thread, which runs one loop at a time. It is empty between iterations.
class SendBatch : private Waiter {
 public:
  static SendBatch& of_thread() {
    thread_local SendBatch batch;
    return batch;
  }

  bool has_room(std::size_t size) {
    if (count_ == sends_.size() || size > capacity - used_) return false;
    if (bytes_ == nullptr) bytes_.reset(new (std::nothrow) char[capacity]);
    return bytes_ != nullptr;
  }

  void add(BatchedSend& send) {
    const std::string_view given = send.sent_.rest;
    Loop& loop = send.socket_.loop();
    assert(has_room(given.size()) && (count_ == 0 || loop_ == &loop));
    std::memcpy(bytes_.get() + used_, given.data(), given.size());
    send.sent_.rest = {bytes_.get() + used_, given.size()};
    used_ += given.size();
    send.place_ = count_;
    sends_[count_++] = &send;
    loop_ = &loop;
    loop.wake_last(*this);
    if (count_ == sends_.size() || capacity - used_ < usual_size) loop.hasten_last();
  }

  void remove(const BatchedSend& send) {
    assert(sends_[send.place_] == &send);
    sends_[send.place_] = nullptr;
  }

 private:
  static constexpr std::uint32_t max_sends = 32;
  static constexpr std::size_t capacity = std::size_t{64} * 1024;  // bytes
  static constexpr std::size_t usual_size = std::size_t{8} * 1024;

  SendBatch() : Waiter([](Waiter& self) { static_cast<SendBatch&>(self).flush(); }) {}

  /// First all sends, then what waits for them: a coroutine that continues may end any other.
  void flush() {
    for (std::uint32_t i = 0; i < count_; ++i) {
      if (sends_[i] == nullptr) continue;
      BatchedSend& each = *sends_[i];
      each.sent_.was_idle = !each.only_if_idle_ || each.socket_.is_idle_and_open(false);
      if (each.sent_.was_idle) each.sent_.error = each.socket_.send_now(each.sent_.rest);
    }
    loop_->read_clock();  // the waiters note when their messages were sent
    for (std::uint32_t i = 0; i < count_; ++i) {
      BatchedSend* const send = std::exchange(sends_[i], nullptr);
      if (send != nullptr) std::exchange(send->waiter_, {}).resume();
    }
    count_ = 0;
    used_ = 0;
  }

  std::array<BatchedSend*, max_sends> sends_{};  // null: it was destroyed
  std::uint32_t count_ = 0;
  std::unique_ptr<char[]> bytes_;
  std::size_t used_ = 0;
  Loop* loop_ = nullptr;  // of the sends
};

bool BatchedSend::suits(Socket& socket, std::size_t size) {
  return socket.loop().has_more_work() && socket.tls() == nullptr &&
         SendBatch::of_thread().has_room(size);
}

BatchedSend::~BatchedSend() {
  if (waiter_) SendBatch::of_thread().remove(*this);
}

void BatchedSend::await_suspend(std::coroutine_handle<> waiter) {
  waiter_ = waiter;
  SendBatch::of_thread().add(*this);
}

}  // namespace evenkeel
