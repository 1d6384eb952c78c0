// Where access lines go: a ring per worker, one thread that empties them, a file, a pipe or a
// terminal behind it. No worker ever waits for a disk.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "evenkeel/base/result.h"
#include "evenkeel/stats/counter.h"

namespace evenkeel {

class AccessLog;

/// Lines on their way from one worker to the writer. Memory is taken page by page as it is used.
class AccessLogRing {
 public:
  AccessLogRing(AccessLog& log, std::size_t capacity);
  AccessLogRing(const AccessLogRing&) = delete;
  AccessLogRing& operator=(const AccessLogRing&) = delete;
  ~AccessLogRing();

  /// Takes a line over; false when there is no room: the line is lost and counted. Never waits; a
  /// system call only to wake a writer that sleeps.
  /// REQUIRES: the line ends in '\n'. Thread: one.
  bool append(std::string_view line);

 private:
  friend class AccessLog;
  void copy(std::uint64_t position, std::string_view line);
  bool more_than_half_full();

  // Positions only grow; position modulo capacity is the place.
  struct alignas(64) {
    std::atomic<std::uint64_t> end{0};  // written by the worker
    std::uint64_t known_begin = 0;      // how far the worker knows the writer to be
    std::uint64_t recheck_at = 0;       // where the worker looks again how full the ring is
    Counter dropped;
  } worker_;
  struct alignas(64) {
    std::atomic<std::uint64_t> begin{0};  // written by the writer
  } writer_;
  AccessLog& log_;
  char* bytes_;
  std::size_t capacity_;  // a power of two
};

/// The access log. At rest its thread sleeps and nothing wakes it.
///
/// A full disk keeps what the rings hold and is tried again; a reader that has gone (EPIPE) loses
/// what is sent to it. Both are counted once lines are lost.
class AccessLog {
 public:
  struct Options {
    std::size_t ring_bytes = 1024 * 1024;             ///< per worker; rounded up to a power of two
    std::chrono::milliseconds close_deadline{2'000};  ///< longest wait for a slow reader at the end
  };

  /// `path`: "stdout", "stderr" or a file, which is appended to.
  static Result<std::unique_ptr<AccessLog>> open(const std::string& path, unsigned workers,
                                                 Options options);
  static Result<std::unique_ptr<AccessLog>> open(const std::string& path, unsigned workers) {
    return open(path, workers, Options());
  }
  AccessLog(const AccessLog&) = delete;
  AccessLog& operator=(const AccessLog&) = delete;
  /// Writes what is left. REQUIRES: no worker appends any more.
  ~AccessLog();

  AccessLogRing& ring(unsigned worker) { return *rings_[worker]; }

  /// Opens the file anew, after it was moved away; on an error the old one stays. Thread: any.
  Result<Done> reopen();
  /// Waits until every line appended before is written or lost; false when the time is over first.
  /// Thread: any but a worker's.
  bool flush(std::chrono::milliseconds timeout);
  /// Lines lost so far. Thread: any.
  std::uint64_t dropped() const;

 private:
  friend class AccessLogRing;
  enum class State : std::uint32_t { awake, napping, asleep };  // of the writer
  enum class Outcome { nothing, some, stuck };

  AccessLog(std::string path, int fd, unsigned workers, Options options);
  void run();
  Outcome drain();
  Outcome drain(AccessLogRing& ring);
  long write(AccessLogRing& ring, std::uint64_t begin, std::uint64_t end);
  bool finish_partial_line();
  Outcome failed(AccessLogRing& ring, std::uint64_t end);
  void discard(AccessLogRing& ring, std::uint64_t until);
  void adopt_reopened();
  std::chrono::milliseconds next_nap() const;
  void close_down();
  void sleep(State state, std::chrono::milliseconds timeout);
  bool wanted(State state) const;
  bool empty() const;
  void wake_writer();

  const std::string path_;
  const Options options_;
  int fd_;  // the writer's, once it runs
  bool socket_;
  AccessLogRing* partial_ring_ = nullptr;  // a line of this ring is written in part
  bool line_torn_ = false;                 // the file ends in a line whose rest was lost
  std::chrono::milliseconds nap_{0};
  std::size_t max_ring_fill_ = 0;  // bytes that the last round found in one ring
  std::atomic<int> reopened_{-1};  // on its way to the writer
  std::vector<std::unique_ptr<AccessLogRing>> rings_;
  alignas(64) std::atomic<State> state_{State::awake};
  std::atomic<bool> closing_{false};
  std::atomic<std::uint32_t> rounds_{0};  // of the writer, for those who wait in flush
  Counter dropped_;                       // by the writer
  std::thread writer_;
};

}  // namespace evenkeel
