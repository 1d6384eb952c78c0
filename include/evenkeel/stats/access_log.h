// Writes the access log: one ring buffer per worker, and one thread that writes all of them to a
// file, a pipe, a terminal or a syslog. No worker waits for I/O. Usage records are written in the
// same way to a file of their own.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "evenkeel/base/clock.h"
#include "evenkeel/base/owned_fd.h"
#include "evenkeel/base/result.h"
#include "evenkeel/stats/counter.h"

namespace evenkeel {

class AccessLog;
class SyslogSocket;

/// The lines of one worker that wait for the writer. The kernel allocates its memory on first use.
class AccessLogRing {
 public:
  /// `released_bytes`: how much of its memory is returned to the kernel at a time, once it is
  /// written; 0: none is.
  AccessLogRing(AccessLog& log, std::size_t capacity, std::size_t released_bytes = 0);
  AccessLogRing(const AccessLogRing&) = delete;
  AccessLogRing& operator=(const AccessLogRing&) = delete;
  ~AccessLogRing();

  /// Copies a line. False if there is no room: the line is lost, and counted. Never waits; makes a
  /// system call only to wake the writer.
  /// REQUIRES: the line ends in '\n'. Thread: one.
  bool append(std::string_view line);
  /// Lines from here on are for the destination of AccessLog::switch_to, if one waits for this.
  /// Thread: that of `append`.
  void begin_destination();

 private:
  friend class AccessLog;
  void copy(std::uint64_t position, std::string_view line);
  void advance(std::uint64_t until);
  bool ends_line(std::uint64_t end) const { return bytes_[(end - 1) & (capacity_ - 1)] == '\n'; }
  bool more_than_half_full();
  std::size_t line_size(std::uint64_t begin, std::uint64_t end) const;
  std::uint64_t next_line(std::uint64_t begin, std::uint64_t end) const;
  std::uint64_t count_lines(std::uint64_t begin, std::uint64_t end) const;

  // Positions only grow; a byte is at its position modulo the capacity.
  struct alignas(64) {
    std::atomic<std::uint64_t> end{0};  // written by the worker
    std::uint64_t known_begin = 0;      // the last begin that the worker has read
    std::uint64_t recheck_at = 0;       // end at which the worker checks the fill again
    Counter dropped;
  } worker_;
  struct alignas(64) {
    std::atomic<std::uint64_t> begin{0};  // written by the writer
  } writer_;
  /// Where the lines for the next destination begin.
  std::atomic<std::uint64_t> destination_begin_{0};
  AccessLog& log_;
  char* bytes_;
  std::size_t capacity_;  // a power of two
  const std::size_t released_bytes_;
  /// How much of it lines may fill: less than all of it, so that what is returned to the kernel is
  /// not written meanwhile.
  const std::size_t room_;
};

/// What lines are written for. `usage`: each is worth money.
enum class LogPurpose : std::uint8_t { access_log, usage };

/// A file, pipe, terminal or socket that is open for an access log. Closes it unless a log takes
/// it.
class AccessLogDestination {
 public:
  /// `path`: "stdout", "stderr", "syslog", "syslog:SOCKET", or a file, which is created or appended
  /// to. A syslog need not listen yet. May block. Thread: any.
  /// For usage records: a file.
  static Result<AccessLogDestination> open(std::string path,
                                           LogPurpose purpose = LogPurpose::access_log);

 private:
  friend class AccessLog;
  AccessLogDestination(std::string path, int fd, bool is_torn)
      : path_(std::move(path)), fd_(fd), is_torn_(is_torn) {}
  std::string path_;
  OwnedFd fd_;
  bool is_torn_;  // the file may end with an incomplete line
};

/// The access log. Without traffic its thread sleeps and has no timer.
///
/// While a disk is full the rings keep their lines, and the write is repeated. Lines for a pipe
/// without a reader (EPIPE) are lost. A syslog that is away is looked for again. Every lost line is
/// counted. That lines cannot be written is reported in the daemon's log, once.
///
/// Usage records are kept in memory whatever the error, until that memory is full; only whole ones
/// are written, and synced to the disk within a second. A file that ends with half a line, because
/// a disk was full or a process was killed, goes on with a new line. That records are lost is
/// reported once a minute.
class AccessLog {
 public:
  struct Options {
    std::size_t ring_bytes = 1024 * 1024;  ///< per worker; rounded up to a power of two
    std::chrono::milliseconds close_deadline{
        2'000};  ///< how long the destructor waits for a slow reader
    LogPurpose purpose = LogPurpose::access_log;
    std::chrono::milliseconds sync_interval{500};  ///< of usage records
    /// What usage records need: memory for a disk that is full or away for a while, which is taken
    /// only then.
    static Options for_usage() {
      return {.ring_bytes = 32UL * 1024 * 1024,
              .close_deadline = std::chrono::milliseconds(5'000),
              .purpose = LogPurpose::usage};
    }
  };

  /// `path`: as AccessLogDestination::open takes it.
  static Result<std::unique_ptr<AccessLog>> open(const std::string& path, unsigned workers,
                                                 Options options);
  static Result<std::unique_ptr<AccessLog>> open(const std::string& path, unsigned workers) {
    return open(path, workers, Options());
  }
  AccessLog(const AccessLog&) = delete;
  AccessLog& operator=(const AccessLog&) = delete;
  /// Writes the remaining lines. REQUIRES: no worker appends any more.
  ~AccessLog();

  AccessLogRing& ring(unsigned worker) { return *rings_[worker]; }

  /// Opens the path again, after the file was moved. On an error the old file stays.
  /// Thread: one, that of `switch_to`.
  Result<Done> reopen();
  /// Writes to another destination. It gets the lines that each worker appends from its
  /// AccessLogRing::begin_destination on, and what the former one does not take. REQUIRES: every
  /// worker calls that next.
  void switch_to(AccessLogDestination destination);
  /// Waits until every line appended so far is written or lost; false at the timeout.
  /// Thread: any but a worker's.
  bool flush(std::chrono::milliseconds timeout);
  /// Lines lost so far. Thread: any.
  std::uint64_t dropped() const;
  /// Usage records that are in the file. Thread: any.
  std::uint64_t written() const { return written_.value(); }

 private:
  friend class AccessLogRing;
  enum class State : std::uint32_t { awake, napping, asleep };  // of the writer
  enum class Outcome { nothing, some, stuck };                  // of writing; `stuck`: retry later

  AccessLog(AccessLogDestination destination, unsigned workers, Options options);
  void run();
  Outcome drain();
  Outcome drain(AccessLogRing& ring);
  long write(AccessLogRing& ring, std::uint64_t begin, std::uint64_t end);
  long send_line(std::string_view front, std::string_view back);
  bool finish_partial_line();
  std::uint64_t count_records(const AccessLogRing& ring, std::uint64_t begin, std::uint64_t& end);
  bool keeps_records() const { return options_.purpose == LogPurpose::usage; }
  void sync_if_due();
  void sync();
  void report_dropped();
  Outcome failed(AccessLogRing& ring, std::uint64_t end);
  void report_failure(int error, const char* effect);
  void report_success();
  Outcome drop_line(AccessLogRing& ring, std::uint64_t begin, std::uint64_t end);
  void discard(AccessLogRing& ring, std::uint64_t until);
  void hand_to_writer(AccessLogDestination destination);
  bool may_adopt() const;
  void adopt_reopened();
  void adopt(AccessLogDestination destination);
  std::uint64_t end_of(const AccessLogRing& ring) const;
  std::chrono::milliseconds next_nap() const;
  void close_down();
  void sleep(State state, std::chrono::milliseconds timeout);
  bool wanted(State state) const;
  bool empty() const;
  void wake_writer();

  std::string path_;
  const Options options_;
  int fd_ = -1;  // used by the writer only, once it runs
  bool socket_ = false;
  std::unique_ptr<SyslogSocket> syslog_;   // null: `fd_` gets lines as they are
  AccessLogRing* partial_ring_ = nullptr;  // the ring whose last line is written in part
  bool failure_reported_ = false;          // and no write has succeeded since
  Instant next_report_{};                  // of a failure
  bool line_torn_ = false;                 // the file ends with an incomplete, lost line
  std::chrono::milliseconds nap_{0};
  std::size_t max_ring_fill_ = 0;  // in bytes, in the last round
  bool stuck_ = false;             // the last round
  /// Owned; one that the writer has not adopted yet.
  std::atomic<AccessLogDestination*> reopened_{nullptr};
  std::vector<std::unique_ptr<AccessLogRing>> rings_;
  alignas(64) std::atomic<State> state_{State::awake};
  std::atomic<bool> closing_{false};
  std::atomic<std::uint32_t> rounds_{0};  // of the writer; flush waits for them
  Counter dropped_;                       // lines that the writer lost
  Counter written_;                       // usage records
  bool unsynced_ = false;                 // the file has records that may not be on the disk
  Instant sync_at_{};
  std::uint64_t reported_dropped_ = 0;
  Instant next_dropped_report_{};
  std::thread writer_;
};

}  // namespace evenkeel
