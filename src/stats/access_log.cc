#include "evenkeel/stats/access_log.h"

#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <limits>
#include <utility>

#include "evenkeel/base/clock.h"
#include "evenkeel/base/log.h"
#include "evenkeel/base/out_of_memory.h"
#include "evenkeel/base/signals_blocked.h"
#include "evenkeel/stats/access_log_format.h"
#include "syslog_socket.h"

namespace evenkeel {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds max_nap{50};       // between two rounds: the most that a line is delayed
constexpr milliseconds retry{250};        // until the next write to a full disk
constexpr milliseconds reader_wait{100};  // for a pipe whose reader does not read
/// The least time between two reports of lost lines, if lines were written in between.
constexpr std::chrono::minutes report_interval{1};
constexpr milliseconds no_timeout = milliseconds::max();
/// Stands for a place that the worker has not told yet: where lines for the next destination begin.
constexpr std::uint64_t unknown_begin = std::numeric_limits<std::uint64_t>::max();
/// How much memory of written usage records is returned to the kernel at a time.
constexpr std::size_t released_at_once = 1024UL * 1024;
constexpr const char* kept = "lines are kept in memory, and lost once that is full";

/// Waits while `word` holds `value`, at most for the timeout.
template <class Word>
void futex_wait(std::atomic<Word>& word, Word value, milliseconds timeout) {
  static_assert(sizeof(Word) == 4 && std::atomic<Word>::is_always_lock_free);
  timespec time{};
  time.tv_sec = timeout.count() / 1000;
  time.tv_nsec = timeout.count() % 1000 * 1'000'000;
  syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, static_cast<std::uint32_t>(value),
          timeout == no_timeout ? nullptr : &time, nullptr, 0);
}

template <class Word>
void futex_wake_all(std::atomic<Word>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, INT32_MAX, nullptr, nullptr, 0);
}

}  // namespace

AccessLogRing::AccessLogRing(AccessLog& log, std::size_t capacity, std::size_t released_bytes)
    : log_(log),
      capacity_(
          std::bit_ceil(std::max<std::size_t>(capacity, released_bytes == 0 ? 4096 : 4 * 4096))),
      released_bytes_(std::min(released_bytes, capacity_ / 4)),
      room_(capacity_ - released_bytes_) {
  void* memory = mmap(nullptr, capacity_, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) out_of_memory();
  madvise(memory, capacity_, MADV_NOHUGEPAGE);
  bytes_ = static_cast<char*>(memory);
  worker_.recheck_at = capacity_ / 2;
}

AccessLogRing::~AccessLogRing() { munmap(bytes_, capacity_); }

bool AccessLogRing::append(std::string_view line) {
  const std::uint64_t position = worker_.end.load(std::memory_order_relaxed);
  const std::uint64_t end = position + line.size();
  if (end - worker_.known_begin > room_) [[unlikely]] {
    // Acquire: the writer has read what is overwritten.
    worker_.known_begin = writer_.begin.load(std::memory_order_acquire);
    if (end - worker_.known_begin > room_) {
      worker_.dropped.add();
      return false;
    }
  }
  copy(position, line);
  // Both are sequentially consistent: either the worker sees that the writer is asleep, or the
  // writer sees this line before it falls asleep (AccessLog::sleep).
  worker_.end.store(end, std::memory_order_seq_cst);
  const auto state = log_.state_.load(std::memory_order_seq_cst);
  if (state == AccessLog::State::asleep) [[unlikely]] {
    log_.wake_writer();
  } else if (end >= worker_.recheck_at) [[unlikely]] {
    if (more_than_half_full() && state == AccessLog::State::napping) log_.wake_writer();
  }
  return true;
}

void AccessLogRing::begin_destination() {
  std::uint64_t expected = unknown_begin;
  const std::uint64_t end = worker_.end.load(std::memory_order_relaxed);
  if (destination_begin_.compare_exchange_strong(expected, end)) log_.wake_writer();
}

/// The size of the line at `begin`, with its end. REQUIRES: it ends before `end`.
std::size_t AccessLogRing::line_size(std::uint64_t begin, std::uint64_t end) const {
  return next_line(begin, end) - begin;
}

/// The position behind the next end of a line; behind `end` if there is none.
std::uint64_t AccessLogRing::next_line(std::uint64_t begin, std::uint64_t end) const {
  while (begin != end) {
    const std::size_t place = begin & (capacity_ - 1);
    const std::size_t size = std::min<std::size_t>(end - begin, capacity_ - place);
    const char* const from = bytes_ + place;
    const void* const found = std::memchr(from, '\n', size);
    if (found != nullptr)
      return begin + static_cast<std::uint64_t>(static_cast<const char*>(found) - from) + 1;
    begin += size;
  }
  return end + 1;
}

std::uint64_t AccessLogRing::count_lines(std::uint64_t begin, std::uint64_t end) const {
  std::uint64_t count = 0;
  for (std::uint64_t at = next_line(begin, end); at <= end; at = next_line(at, end)) ++count;
  return count;
}

void AccessLogRing::copy(std::uint64_t position, std::string_view line) {
  const std::size_t place = position & (capacity_ - 1);
  const std::size_t front = std::min(line.size(), capacity_ - place);
  std::memcpy(bytes_ + place, line.data(), front);
  if (front != line.size()) [[unlikely]] {
    std::memcpy(bytes_, line.data() + front, line.size() - front);
  }
}

/// What precedes `until` is written, and may be overwritten. Thread: the writer's.
void AccessLogRing::advance(std::uint64_t until) {
  if (released_bytes_ != 0) {
    // The worker fills no more than `room_`, so that it is not in the part in which `begin` is.
    std::uint64_t part = writer_.begin.load(std::memory_order_relaxed) & ~(released_bytes_ - 1);
    for (; part + released_bytes_ <= until; part += released_bytes_) {
      madvise(bytes_ + (part & (capacity_ - 1)), released_bytes_, MADV_DONTNEED);
    }
  }
  // Release: the bytes are read before the worker may overwrite them.
  writer_.begin.store(until, std::memory_order_release);
}

/// True if the ring is more than half full, so that the writer should not nap. Sets `recheck_at` to
/// the position from which the answer may be another.
bool AccessLogRing::more_than_half_full() {
  const std::uint64_t end = worker_.end.load(std::memory_order_relaxed);
  worker_.known_begin = writer_.begin.load(std::memory_order_acquire);
  const bool so = end - worker_.known_begin >= capacity_ / 2;
  worker_.recheck_at = so ? end + capacity_ / 8 : worker_.known_begin + capacity_ / 2;
  return so;
}

Result<std::unique_ptr<AccessLog>> AccessLog::open(const std::string& path, unsigned workers,
                                                   Options options) {
  auto destination = AccessLogDestination::open(path, options.purpose);
  if (!destination) return std::move(destination.error());
  return std::unique_ptr<AccessLog>(new AccessLog(std::move(*destination), workers, options));
}

AccessLog::AccessLog(AccessLogDestination destination, unsigned workers, Options options)
    : path_(destination.path_), options_(options) {
  adopt(std::move(destination));
  for (unsigned i = 0; i < workers; ++i) {
    rings_.push_back(std::make_unique<AccessLogRing>(*this, options_.ring_bytes,
                                                     keeps_records() ? released_at_once : 0));
  }
  const SignalsBlocked blocked;  // inherited by the thread
  writer_ = std::thread(&AccessLog::run, this);
  pthread_setname_np(writer_.native_handle(), keeps_records() ? "usage" : "access-log");
}

AccessLog::~AccessLog() {
  closing_.store(true, std::memory_order_seq_cst);
  wake_writer();
  writer_.join();
  delete reopened_.load(std::memory_order_relaxed);
  ::close(fd_);
}

Result<Done> AccessLog::reopen() {
  if (path_ == "stdout" || path_ == "stderr") return Done();
  auto opened = AccessLogDestination::open(path_, options_.purpose);
  if (!opened) return std::move(opened.error());
  hand_to_writer(std::move(*opened));
  return Done();
}

void AccessLog::switch_to(AccessLogDestination destination) {
  path_ = destination.path_;
  for (const auto& ring : rings_) ring->destination_begin_.store(unknown_begin);
  hand_to_writer(std::move(destination));
}

void AccessLog::hand_to_writer(AccessLogDestination destination) {
  auto* const next = new AccessLogDestination(std::move(destination));
  delete reopened_.exchange(next, std::memory_order_seq_cst);
  wake_writer();
}

bool AccessLog::flush(milliseconds timeout) {
  const Instant deadline = Clock::now() + timeout;
  std::vector<std::uint64_t> ends;
  for (const auto& ring : rings_) ends.push_back(ring->worker_.end.load(std::memory_order_acquire));
  const auto done = [&] {
    for (std::size_t i = 0; i < rings_.size(); ++i) {
      if (rings_[i]->writer_.begin.load(std::memory_order_acquire) < ends[i]) return false;
    }
    return true;
  };
  wake_writer();
  for (;;) {
    const std::uint32_t round = rounds_.load(std::memory_order_acquire);
    if (done()) return true;
    const auto left = std::chrono::ceil<milliseconds>(deadline - Clock::now());
    if (left <= milliseconds::zero()) return false;
    futex_wait(rounds_, round, left);
  }
}

std::uint64_t AccessLog::dropped() const {
  std::uint64_t sum = dropped_.value();
  for (const auto& ring : rings_) sum += ring->worker_.dropped.value();
  return sum;
}

void AccessLog::run() {
  while (!closing_.load(std::memory_order_acquire)) {
    adopt_reopened();
    const Outcome outcome = drain();
    stuck_ = outcome == Outcome::stuck;
    if (keeps_records()) {
      sync_if_due();
      report_dropped();
    }
    rounds_.fetch_add(1, std::memory_order_release);
    futex_wake_all(rounds_);
    switch (outcome) {
      case Outcome::some:
        nap_ = next_nap();
        if (nap_ > milliseconds::zero()) sleep(State::napping, nap_);
        break;
      case Outcome::stuck: sleep(State::napping, retry); break;
      case Outcome::nothing:
        nap_ = max_nap;
        if (unsynced_) {
          sleep(State::napping, max_nap);
        } else {
          sleep(State::asleep, no_timeout);
        }
        break;
    }
  }
  close_down();
}

/// How long to nap so that the fullest ring is an eighth full afterwards, at the present rate.
milliseconds AccessLog::next_nap() const {
  const std::size_t capacity = rings_.front()->capacity_;
  if (max_ring_fill_ > capacity / 4) return milliseconds::zero();
  const double ratio = static_cast<double>(capacity / 8) / static_cast<double>(max_ring_fill_);
  const auto passed = static_cast<double>(std::max<milliseconds::rep>(nap_.count(), 1));
  return milliseconds(static_cast<milliseconds::rep>(
      std::clamp(passed * std::min(ratio, 2.0), 1.0, static_cast<double>(max_nap.count()))));
}

/// Writes what is left before the thread ends. Waits for a slow reader, but not for a full disk,
/// nor for a syslog that is away; usage records wait for a disk too.
void AccessLog::close_down() {
  const Instant deadline = Clock::now() + options_.close_deadline;
  for (const auto& ring : rings_) ring->begin_destination();  // no worker appends any more
  for (adopt_reopened(); !empty(); adopt_reopened()) {
    stuck_ = drain() == Outcome::stuck;
    const bool is_hopeless = stuck_ && errno != EAGAIN && !may_adopt();
    if ((is_hopeless && !keeps_records()) || Clock::now() >= deadline) break;
    if (is_hopeless) std::this_thread::sleep_for(max_nap);
  }
  sync();
  const std::uint64_t lost = dropped_.value();
  for (const auto& ring : rings_) discard(*ring, ring->worker_.end.load(std::memory_order_acquire));
  if (const std::uint64_t left = dropped_.value() - lost; left > 0) {
    const std::string count = "the last " + std::to_string(left);
    if (keeps_records()) {
      log::usage.error(count + " usage records are lost: the disk did not take them");
    } else {
      log::access_log.warning(count + " lines of the access log are lost");
    }
  }
}

AccessLog::Outcome AccessLog::drain() {
  Outcome all = Outcome::nothing;
  max_ring_fill_ = 0;
  // A line that is written in part is finished before another ring is drained.
  if (partial_ring_ != nullptr) all = drain(*partial_ring_);
  for (auto ring = rings_.begin(); ring != rings_.end() && all != Outcome::stuck; ++ring) {
    all = std::max(all, drain(**ring));
  }
  return all;
}

/// Writes what the ring holds at the start, not what is appended meanwhile, so that no ring starves
/// the others.
AccessLog::Outcome AccessLog::drain(AccessLogRing& ring) {
  std::uint64_t begin = ring.writer_.begin.load(std::memory_order_relaxed);
  const std::uint64_t end = end_of(ring);
  if (begin == end) return Outcome::nothing;
  max_ring_fill_ = std::max<std::size_t>(max_ring_fill_, end - begin);
  while (begin != end) {
    const long written = finish_partial_line() ? write(ring, begin, end) : -1;
    if (written < 0) {
      if (errno == EINTR) continue;
      const bool is_too_long = syslog_ && errno == EMSGSIZE;
      const Outcome outcome = is_too_long ? drop_line(ring, begin, end) : failed(ring, end);
      if (outcome == Outcome::stuck) return outcome;
      begin = ring.writer_.begin.load(std::memory_order_relaxed);
      continue;
    }
    if (failure_reported_) [[unlikely]]
      report_success();
    std::uint64_t reached = begin + static_cast<std::uint64_t>(written);
    if (keeps_records()) {
      written_.add(count_records(ring, begin, reached));
    } else {
      partial_ring_ = ring.ends_line(reached) ? nullptr : &ring;
    }
    begin = reached;
    ring.advance(begin);
  }
  return Outcome::some;
}

/// How many records were written from `begin` to `end`, which is moved to the end of the last whole
/// one: what was cut is written again as a whole.
std::uint64_t AccessLog::count_records(const AccessLogRing& ring, std::uint64_t begin,
                                       std::uint64_t& end) {
  while (end != begin && !ring.ends_line(end)) {
    --end;
    line_torn_ = true;
  }
  if (!unsynced_) sync_at_ = Clock::now() + options_.sync_interval;
  unsynced_ = true;
  return ring.count_lines(begin, end);
}

void AccessLog::sync_if_due() {
  if (unsynced_ && Clock::now() >= sync_at_) sync();
}

/// Waits until the disk has what was written.
void AccessLog::sync() {
  if (!std::exchange(unsynced_, false)) return;
  const bool is_file = fdatasync(fd_) == 0 || errno == EINVAL || errno == EROFS;
  if (!is_file) report_failure(errno, "the last records may not be on the disk");
}

/// Reports that usage records were lost, once a minute.
void AccessLog::report_dropped() {
  const std::uint64_t lost = dropped();
  const Instant now = Clock::now();
  if (lost == reported_dropped_ || now < next_dropped_report_) return;
  next_dropped_report_ = now + report_interval;
  log::usage.error(std::to_string(lost - std::exchange(reported_dropped_, lost)) +
                   " usage records are lost: the memory for those that wait for the disk is full");
}

long AccessLog::write(AccessLogRing& ring, std::uint64_t begin, std::uint64_t end) {
  if (syslog_) end = begin + ring.line_size(begin, end);
  const std::size_t place = begin & (ring.capacity_ - 1);
  const std::size_t front = std::min<std::size_t>(end - begin, ring.capacity_ - place);
  if (syslog_) return send_line({ring.bytes_ + place, front}, {ring.bytes_, end - begin - front});
  std::array<iovec, 2> parts{iovec{ring.bytes_ + place, front},
                             iovec{ring.bytes_, end - begin - front}};
  const std::size_t count = parts[1].iov_len == 0 ? 1 : 2;
  if (!socket_) return writev(fd_, parts.data(), static_cast<int>(count));
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = count;
  return sendmsg(fd_, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/// Sends one line, which may be in two pieces, to a syslog. Its size, or -1 with errno.
long AccessLog::send_line(std::string_view front, std::string_view back) {
  errno = syslog_->send(fd_, front, back);
  return errno == 0 ? static_cast<long>(front.size() + back.size()) : -1;
}

/// Ends a torn line, so that the next one starts on its own line; false with errno.
bool AccessLog::finish_partial_line() {
  if (!line_torn_) return true;
  const long written =
      socket_ ? send(fd_, "\n", 1, MSG_DONTWAIT | MSG_NOSIGNAL) : ::write(fd_, "\n", 1);
  line_torn_ = written != 1;
  return !line_torn_;
}

/// Handles a write that failed with errno. `some`: go on; `stuck`: retry later.
AccessLog::Outcome AccessLog::failed(AccessLogRing& ring, std::uint64_t end) {
  if (!keeps_records() && (errno == ENOSPC || errno == EDQUOT || (syslog_ && errno != EAGAIN))) {
    report_failure(errno, kept);
    return Outcome::stuck;
  }
  if (errno == EAGAIN && !keeps_records()) {
    pollfd wanted{.fd = fd_, .events = POLLOUT, .revents = 0};
    const int ready = poll(&wanted, 1, static_cast<int>(reader_wait.count()));
    if (ready == 0) errno = EAGAIN;
    return ready == 0 ? Outcome::stuck : Outcome::some;
  }
  if (keeps_records()) {
    report_failure(errno, "records are kept in memory, and lost once that is full");
    return Outcome::stuck;
  }
  report_failure(errno, "lines are lost");
  discard(ring, end);  // EPIPE and the like are permanent
  return Outcome::some;
}

/// Reports a failure once, until a write succeeds.
void AccessLog::report_failure(int error, const char* effect) {
  if (failure_reported_) return;
  const Instant now = Clock::now();
  if (now < next_report_) return;
  next_report_ = now + report_interval;
  failure_reported_ = true;
  if (keeps_records()) {
    log::usage.error(std::string("usage records cannot be written: ") + std::strerror(error) +
                     "; " + effect);
    errno = error;
    return;
  }
  const std::string place = syslog_ ? syslog_->path() + ": " : std::string();
  log::access_log.warning("the access log cannot be written: " + place + std::strerror(error) +
                          "; " + effect);
  errno = error;  // `close_down` looks at it
}

/// Drops a line that is longer than the syslog takes.
AccessLog::Outcome AccessLog::drop_line(AccessLogRing& ring, std::uint64_t begin,
                                        std::uint64_t end) {
  const std::size_t size = ring.line_size(begin, end);
  discard(ring, begin + size);
  const Instant now = Clock::now();
  if (now < next_report_) return Outcome::some;
  next_report_ = now + report_interval;
  log::access_log.warning("a line of the access log is lost: it has " + std::to_string(size) +
                          " bytes, more than the socket of the syslog takes");
  return Outcome::some;
}

void AccessLog::report_success() {
  failure_reported_ = false;
  if (keeps_records()) return log::usage.info("usage records are written again");
  log::access_log.info("the access log is written again");
}

/// Drops what the ring holds before `until`, and counts the lines as lost.
void AccessLog::discard(AccessLogRing& ring, std::uint64_t until) {
  const std::uint64_t begin = ring.writer_.begin.load(std::memory_order_relaxed);
  dropped_.add(ring.count_lines(begin, until));
  if (partial_ring_ == &ring && until != begin) {
    partial_ring_ = nullptr;
    line_torn_ = true;
  }
  ring.writer_.begin.store(until, std::memory_order_release);
}

/// Switches to the destination that `reopen` or `switch_to` has brought. Drops a line whose
/// beginning is in the old file, because the rest of it would be the first line of the new file.
void AccessLog::adopt_reopened() {
  if (!may_adopt()) return;
  const std::unique_ptr<AccessLogDestination> next(
      reopened_.exchange(nullptr, std::memory_order_acquire));
  if (partial_ring_ != nullptr) {
    std::uint64_t until = partial_ring_->writer_.begin.load(std::memory_order_relaxed);
    while (partial_ring_->bytes_[until++ & (partial_ring_->capacity_ - 1)] != '\n') {
    }
    discard(*partial_ring_, until);
  }
  sync();
  ::close(fd_);
  adopt(std::move(*next));
}

void AccessLog::adopt(AccessLogDestination destination) {
  fd_ = destination.fd_.take();
  line_torn_ = destination.is_torn_;
  socket_ = is_socket(fd_);
  syslog_.reset();
  const auto path = syslog_path(destination.path_);
  if (!path) return;
  syslog_ = std::make_unique<SyslogSocket>(*path);
  if (const int error = syslog_->connect(fd_)) report_failure(error, kept);
}

/// True if another destination waits and may be adopted: the one of now has all its lines, or takes
/// none.
bool AccessLog::may_adopt() const {
  if (reopened_.load(std::memory_order_seq_cst) == nullptr) return false;
  return stuck_ || std::ranges::all_of(rings_, [](const auto& ring) {
           return ring->writer_.begin.load(std::memory_order_relaxed) >=
                  ring->destination_begin_.load(std::memory_order_seq_cst);
         });
}

/// Where the lines for the destination of now end.
std::uint64_t AccessLog::end_of(const AccessLogRing& ring) const {
  const std::uint64_t end = ring.worker_.end.load(std::memory_order_seq_cst);
  if (reopened_.load(std::memory_order_seq_cst) == nullptr) return end;
  const std::uint64_t next = ring.destination_begin_.load(std::memory_order_seq_cst);
  return next < ring.writer_.begin.load(std::memory_order_relaxed) ? end : std::min(end, next);
}

bool AccessLog::empty() const {
  return std::all_of(rings_.begin(), rings_.end(), [this](const auto& ring) {
    return ring->writer_.begin.load(std::memory_order_relaxed) == end_of(*ring);
  });
}

/// True if there is work, so that the writer must not sleep.
bool AccessLog::wanted(State state) const {
  return closing_.load(std::memory_order_seq_cst) || may_adopt() ||
         (state == State::asleep && !empty());
}

void AccessLog::sleep(State state, milliseconds timeout) {
  state_.store(state, std::memory_order_seq_cst);
  // Checked after the state is published: a later line wakes the writer (AccessLogRing::append).
  if (!wanted(state)) futex_wait(state_, state, timeout);
  state_.store(State::awake, std::memory_order_relaxed);
}

void AccessLog::wake_writer() {
  if (state_.exchange(State::awake, std::memory_order_seq_cst) != State::awake) {
    futex_wake_all(state_);
  }
}

}  // namespace evenkeel
