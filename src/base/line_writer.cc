#include "base/line_writer.h"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <utility>

#include "evenkeel/base/signals_blocked.h"

namespace evenkeel {
LineWriter::LineWriter(int fd, std::size_t capacity_bytes, Notice notice)
    : fd_(fd),
      capacity_bytes_(capacity_bytes),
      notice_(std::move(notice)),
      wake_fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  const SignalsBlocked blocked;  // inherited by the thread
  thread_ = std::thread([this] {
    pthread_setname_np(pthread_self(), "log");
    run();
  });
}

LineWriter::~LineWriter() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(wake_fd_, &one, sizeof one);
  queued_.notify_all();
  thread_.join();
  close(wake_fd_);
}

void LineWriter::append(std::string line) {
  {
    const std::lock_guard lock(mutex_);
    if (queued_bytes_ + line.size() > capacity_bytes_) {
      ++refused_;
      drop(1);
      return;
    }
    queued_bytes_ += line.size();
    lines_.push_back(std::move(line));
  }
  queued_.notify_one();
}

bool LineWriter::flush(Duration patience) {
  const Instant end = Clock::now() + 10 * patience;
  std::unique_lock lock(mutex_);
  const auto all_written = [this] { return lines_.empty() && !writing_; };
  while (!all_written()) {
    const std::uint64_t before = written_.load(std::memory_order_relaxed);
    if (idle_.wait_for(lock, patience, all_written)) break;
    const bool stuck = written_.load(std::memory_order_relaxed) == before;
    if (stuck || Clock::now() > end) return false;
  }
  return true;
}

void LineWriter::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    queued_.wait(lock, [this] { return stopping_ || !lines_.empty(); });
    if (stopping_) return;
    // A line is refused only behind others: their batch knows where in the log it is missing.
    Batch batch{std::exchange(lines_, {}), std::exchange(refused_, 0)};
    queued_bytes_ = 0;
    writing_ = true;
    lock.unlock();
    write_batch(std::move(batch));
    lock.lock();
    writing_ = false;
    if (lines_.empty()) idle_.notify_all();
  }
}

void LineWriter::write_batch(Batch batch) {
  bool last_written = false;
  for (const std::string& line : batch.lines) {
    last_written = write_line(line);
    if (last_written) {
      written_.fetch_add(1, std::memory_order_relaxed);
    } else {
      drop(1);
      ++unannounced_;
    }
  }
  unannounced_ += batch.dropped_after;
  if (unannounced_ > 0 && last_written && write_line(notice_(unannounced_))) unannounced_ = 0;
}

/// False if the line, or its rest, cannot be written.
bool LineWriter::write_line(std::string_view line) {
  while (!line.empty()) {
    if (!wait_writable()) return false;
    const std::size_t size = std::min<std::size_t>(line.size(), PIPE_BUF);
    const ssize_t written = ::write(fd_, line.data(), size);
    if (written > 0) {
      line.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno != EINTR && errno != EAGAIN) {
      return false;
    }
  }
  return true;
}

/// False when the thread is to end. Errors of the descriptor count as writable: write(2) names
/// them.
bool LineWriter::wait_writable() {
  std::array<pollfd, 2> polled{{{.fd = fd_, .events = POLLOUT, .revents = 0},
                                {.fd = wake_fd_, .events = POLLIN, .revents = 0}}};
  while (poll(polled.data(), polled.size(), -1) < 0 && errno == EINTR) {
  }
  return polled[1].revents == 0;
}

}  // namespace evenkeel
