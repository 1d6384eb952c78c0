// Writes lines to a descriptor from a thread of its own, so that no other thread waits for a
// reader.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "evenkeel/base/clock.h"

namespace evenkeel {

/// A bounded queue of lines and the thread that writes them, in order. Lines that find the queue
/// full, or that cannot be written, are dropped and counted; the next line that can be written is
/// followed by a notice that says how many are missing.
///
/// The descriptor stays blocking, since other processes may share it: the thread writes no more
/// than PIPE_BUF bytes at a time, and only when poll(2) says that there is room.
///
/// Thread: any, but for the constructor and the destructor.
class LineWriter {
 public:
  /// Makes the notice for this many dropped lines, with its line end. Called on the writing thread.
  using Notice = std::function<std::string(std::uint64_t dropped)>;

  /// `capacity_bytes` bounds the lines that wait; as many may be in the thread's hands besides.
  LineWriter(int fd, std::size_t capacity_bytes, Notice notice);
  LineWriter(const LineWriter&) = delete;
  /// Ends the thread without waiting for a reader: call `flush` before.
  ~LineWriter();

  /// Queues a line, which has its line end. Never waits for the reader.
  void append(std::string line);

  /// Waits until all lines are written; gives up when none has been written for `patience`, and
  /// after ten times `patience` in any case. False if it gave up.
  bool flush(Duration patience);

  std::uint64_t dropped() const { return dropped_.load(std::memory_order_relaxed); }

 private:
  struct Batch {
    std::deque<std::string> lines;
    std::uint64_t dropped_after;  // lines that found the queue full behind these
  };

  void run();
  void write_batch(Batch batch);
  bool write_line(std::string_view line);
  bool wait_writable();
  void drop(std::uint64_t count) { dropped_.fetch_add(count, std::memory_order_relaxed); }

  const int fd_;
  const std::size_t capacity_bytes_;
  const Notice notice_;
  int wake_fd_;  // readable when the thread is to end
  std::atomic<std::uint64_t> dropped_{0};
  std::atomic<std::uint64_t> written_{0};  // lines, for `flush` to see progress
  std::uint64_t unannounced_ = 0;          // dropped lines, of the writing thread

  std::mutex mutex_;
  std::condition_variable queued_;
  std::condition_variable idle_;
  std::deque<std::string> lines_;
  std::size_t queued_bytes_ = 0;
  std::uint64_t refused_ = 0;  // since the last batch was taken
  bool writing_ = false;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace evenkeel
