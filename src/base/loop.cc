#include "evenkeel/base/loop.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cassert>
#include <cerrno>
#include <cstdlib>
#include <iterator>
#include <system_error>

#include "timerfd.h"

namespace evenkeel {
namespace {

/// Timers wait for at most this many iterations in a row that fill the event array.
constexpr unsigned max_full_iterations = 16;
/// A wait that ends later than this after its time was not a wait: the process was stopped.
constexpr Duration max_wait_delay = std::chrono::milliseconds(20);

/// What epoll reports of the loop's own descriptors; no watch has such a token.
constexpr std::uint64_t wakeup_token = ~std::uint64_t{0};
constexpr std::uint64_t ticker_token = ~std::uint64_t{1};

/// False where one of the descriptors could not be made, or the kernel cannot watch the second.
bool watch_own(int epoll, int fd, std::uint64_t token) {
  if (epoll < 0 || fd < 0) return false;
  epoll_event event{};
  event.events = EPOLLIN | EPOLLET;
  event.data.u64 = token;
  return epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0;
}

}  // namespace

// ---- Timer ------------------------------------------------------------------------------------

void Timer::arm(Loop& loop, Instant when) {
  unlink();
  when_ = when;
  if (when != never) loop.schedule(*this);
}

// ---- Watch ------------------------------------------------------------------------------------

Watch::Watch(Loop& loop, int fd) { open(loop, fd); }

void Watch::open(Loop& loop, int fd) {
  if (!try_open(loop, fd)) throw std::system_error(errno, std::generic_category(), "epoll_ctl");
}

bool Watch::try_open(Loop& loop, int fd) {
  assert(fd_ < 0);
  loop_ = &loop;
  fd_ = fd;
  readable_ = buffered_ = writable_ = peer_closed_ = broken_ = interrupted_ = false;
  const std::uint64_t token = loop.enter(*this);
  epoll_event event{};
  event.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
  event.data.u64 = token;
  if (epoll_ctl(loop.epoll_, EPOLL_CTL_ADD, fd, &event) != 0) {
    loop.leave(*this);
    fd_ = -1;
    return false;
  }
  return true;
}

void Watch::release() {
  if (fd_ < 0) return;
  loop_->leave(*this);
  epoll_ctl(loop_->epoll_, EPOLL_CTL_DEL, fd_, nullptr);
  fd_ = -1;
}

void Watch::release_before_close() {
  if (fd_ < 0) return;
  loop_->leave(*this);
  fd_ = -1;
}

void Watch::interrupt() {
  interrupted_ = true;
  if (reader_ != nullptr) {
    reader_->wake_ = Wake::interrupted;
    loop_->wake_soon(*reader_);
  }
}

Watch::Wait::Wait(Watch& watch, bool reads, Instant deadline)
    : Waiter([](Waiter& self) {
        auto& wait = static_cast<Wait&>(self);
        wait.finish(wait.wake_);
      }),
      Timer([](Timer& self) { static_cast<Wait&>(self).finish(Wake::expired); }),
      watch_(watch),
      deadline_(deadline),
      reads_(reads) {}

bool Watch::Wait::await_ready() {
  if (reads_ && watch_.interrupted_) {
    watch_.interrupted_ = false;
    wake_ = Wake::interrupted;
    return true;
  }
  return reads_ ? watch_.readable() : watch_.writable_;
}

void Watch::Wait::await_suspend(std::coroutine_handle<> waiter) {
  waiter_ = waiter;
  Wait*& slot = reads_ ? watch_.reader_ : watch_.writer_;
  assert(slot == nullptr);
  slot = this;
  if (deadline_ != never) arm(*watch_.loop_, deadline_);
}

void Watch::Wait::detach() {
  if (!waiter_) return;
  (reads_ ? watch_.reader_ : watch_.writer_) = nullptr;
  waiter_ = {};
  disarm();
}

void Watch::Wait::finish(Wake wake) {
  auto waiter = waiter_;
  if (!waiter) return;
  wake_ = wake;
  if (wake == Wake::interrupted) watch_.interrupted_ = false;
  detach();
  waiter.resume();
}

// ---- Signal -----------------------------------------------------------------------------------

void Signal::raise() {
  raised_ = true;
  if (waiter_ != nullptr) loop_.wake_soon(*waiter_);
}

Signal::Wait::Wait(Signal& signal, Instant deadline)
    : Waiter([](Waiter& self) {
        auto& wait = static_cast<Wait&>(self);
        wait.disarm();
        std::exchange(wait.waiter_, {}).resume();
      }),
      Timer([](Timer& self) {
        auto& wait = static_cast<Wait&>(self);
        wait.wake_ = Wake::expired;
        std::exchange(wait.waiter_, {}).resume();
      }),
      signal_(signal),
      deadline_(deadline) {}

Signal::Wait::~Wait() {
  if (signal_.waiter_ == this) signal_.waiter_ = nullptr;
}

void Signal::Wait::await_suspend(std::coroutine_handle<> waiter) {
  assert(signal_.waiter_ == nullptr);
  waiter_ = waiter;
  signal_.waiter_ = this;
  if (deadline_ != never) arm(signal_.loop_, deadline_);
}

Wake Signal::Wait::await_resume() {
  if (signal_.waiter_ == this) signal_.waiter_ = nullptr;
  if (signal_.raised_) wake_ = Wake::ready;
  signal_.raised_ = false;
  return wake_;
}

// ---- Loop -------------------------------------------------------------------------------------

/// A task without an awaiting coroutine, in the loop's list until it is done.
struct Loop::Spawned {
  struct promise_type : Node, Pooled {
    Loop& loop;
    promise_type(Loop& owner, Task<void>&) : loop(owner) {
      insert_before(owner.spawned_);
      ++owner.spawned_count_;
    }
    ~promise_type() { --loop.spawned_count_; }
    Spawned get_return_object() { return {}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() noexcept {}
    void unhandled_exception() noexcept { std::terminate(); }
  };

  static Spawned keep(Loop&, Task<void> task) { co_await task; }
};

Loop::Loop() : now_(Clock::now()), iteration_ended_(now_), wheel_start_(now_) {
  epoll_ = epoll_create1(EPOLL_CLOEXEC);
  if (epoll_ >= 0) wakeup_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (wakeup_ >= 0) ticker_ = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
  if (watch_own(epoll_, wakeup_, wakeup_token) && watch_own(epoll_, ticker_, ticker_token)) return;
  const int error = errno;
  for (const int fd : {ticker_, wakeup_, epoll_}) {
    if (fd >= 0) close(fd);
  }
  throw std::system_error(error, std::generic_category(), "cannot make an event loop");
}

void Loop::drop_spawned() {
  while (spawned_.linked()) {
    auto& promise = static_cast<Spawned::promise_type&>(*spawned_.next);
    std::coroutine_handle<Spawned::promise_type>::from_promise(promise).destroy();
  }
}

Loop::~Loop() {
  drop_spawned();
  posted_.clear();
  close(ticker_);
  close(wakeup_);
  close(epoll_);
}

void Loop::spawn(Task<void> task) {
  if (!task.ready()) Spawned::keep(*this, std::move(task));
}

void Loop::run() {
  while (!stopping_) run_once(never);
  stopping_ = false;
}

bool Loop::run_until(const std::function<bool()>& done, Instant deadline) {
  while (!done()) {
    if (Clock::now() >= deadline) return false;
    run_once(deadline);
  }
  return true;
}

void Loop::stop() {
  post([this] { stopping_ = true; });
}

void Loop::post(std::function<void()> work) {
  std::unique_lock lock(posted_mutex_);
  posted_.push_back(std::move(work));
  const bool first = !std::exchange(wakeup_pending_, true);
  lock.unlock();
  if (!first) return;
  const std::uint64_t one = 1;
  [[maybe_unused]] auto written = write(wakeup_, &one, sizeof one);
}

void Loop::run_posted() {
  std::vector<std::function<void()>> work;
  {
    std::lock_guard lock(posted_mutex_);
    if (!wakeup_pending_) return;
    work.swap(posted_);
    wakeup_pending_ = false;
  }
  for (auto& item : work) item();
}

/// Ends a wait at this instant, or earlier: a timer that was disarmed is not worth a system call.
void Loop::arm_ticker(Instant when) {
  if (ticker_at_ <= when) return;
  ticker_at_ = when;
  set_timerfd(ticker_, when);
}

/// Waits for up to `max_events` events, or until a timer is due at `until`; sets that to when the
/// wait would have ended. Without a wait if it has passed. -1: it was interrupted, and there may be
/// events.
int Loop::wait_for_events(epoll_event* events, Instant& until) {
  const auto look = [&](int timeout) { return epoll_wait(epoll_, events, max_events, timeout); };
  if (until <= iteration_ended_) return look(0);
  if (busy_poll_.is_due()) {
    const Instant give_up = std::min(iteration_ended_ + BusyPoll::longest, until);
    int count;
    do {
      count = look(0);
    } while (count == 0 && Clock::now() < give_up);
    busy_poll_.polled(count != 0);
    if (count != 0) return count;
  }
  arm_ticker(until);
  until = ticker_at_;
  const int count = look(-1);
  busy_poll_.slept(Clock::now() - iteration_ended_);
  return count;
}

void Loop::run_once(Instant wake_at) {
  Instant wait_until = ready_.linked() ? iteration_ended_ : std::min(wake_at, next_timer());
  std::array<epoll_event, max_events> events;
  const int count = wait_for_events(events.data(), wait_until);
  const Instant began = read_clock();
  iterations_.fetch_add(1, std::memory_order_relaxed);

  bool posted = false;
  bool ticked = false;
  for (int i = 0; i < count; ++i) {
    const auto& event = events[static_cast<std::size_t>(i)];
    more_events_ = i + 1 < count;
    if (event.data.u64 == wakeup_token) {
      posted = true;
    } else if (event.data.u64 == ticker_token) {
      ticked = true;
      ticker_at_ = never;
    } else {
      dispatch(event.data.u64, event.events);
    }
  }
  if (posted) {
    std::uint64_t ignored;
    [[maybe_unused]] auto got = read(wakeup_, &ignored, sizeof ignored);
    run_posted();
  }
  run_ready();
  // While the process is stopped, bytes arrive and timers become due. What has arrived is
  // dispatched before timers run, so that nothing whose answer has arrived times out: a timer that
  // became due during the wait runs now if nothing else happened, else in the next iteration; and
  // when the array is full, more events may be pending.
  const bool in_time = began - max_wait_delay <= std::max(wait_until, iteration_ended_);
  const bool nothing_else = count == (ticked ? 1 : 0);
  const bool full = count == max_events;
  full_iterations_ = full ? full_iterations_ + 1 : 0;
  if (full_iterations_ % max_full_iterations == 0) {
    run_timers(nothing_else && in_time ? began : iteration_ended_);
  }

  iteration_ended_ = Clock::now();
  const auto took = (iteration_ended_ - began).count();
  if (took > max_iteration_time_.load(std::memory_order_relaxed)) {
    max_iteration_time_.store(took, std::memory_order_relaxed);
  }
}

std::uint64_t Loop::enter(Watch& watch) {
  const auto index = static_cast<std::size_t>(watch.fd_);
  if (watches_.size() <= index) watches_.resize(std::max<std::size_t>(64, index * 2));
  Slot& slot = watches_[index];
  slot.watch = &watch;
  ++slot.generation;
  return (static_cast<std::uint64_t>(slot.generation & 0x7fffffffu) << 32) | index;
}

void Loop::leave(Watch& watch) {
  Slot& slot = watches_[static_cast<std::size_t>(watch.fd_)];
  if (slot.watch == &watch) slot.watch = nullptr;
}

void Loop::dispatch(std::uint64_t token, std::uint32_t events) {
  const auto index = static_cast<std::size_t>(token & 0xffffffffu);
  const auto generation = static_cast<std::uint32_t>(token >> 32);
  const auto current = [&]() -> Watch* {
    const Slot& slot = watches_[index];
    return (slot.generation & 0x7fffffffu) == generation ? slot.watch : nullptr;
  };

  Watch* watch = current();
  if (watch == nullptr) return;
  if (events & (EPOLLHUP | EPOLLERR)) watch->broken_ = watch->peer_closed_ = true;
  if (events & EPOLLRDHUP) watch->peer_closed_ = true;
  if (events & EPOLLIN || watch->peer_closed_) watch->readable_ = true;
  if (events & EPOLLOUT || watch->broken_) watch->writable_ = true;

  // Each of these may destroy the watch: look it up again every time.
  if (watch->peer_closed_ && watch->hangup_waiter_ != nullptr) {
    watch->hangup_waiter_->wake();
    if ((watch = current()) == nullptr) return;
  }
  if (watch->readable_) {
    if (watch->reader_ != nullptr) {
      watch->reader_->finish(Wake::ready);
    } else if (watch->idle_waiter_ != nullptr) {
      watch->idle_waiter_->wake();
    }
    if ((watch = current()) == nullptr) return;
  }
  if (watch->writable_ && watch->writer_ != nullptr) watch->writer_->finish(Wake::ready);
}

void Loop::wake_soon(Waiter& waiter) {
  if (!waiter.linked()) waiter.insert_before(ready_);
}

void Loop::run_ready() {
  Node batch;  // a waiter that is added while these run waits for the next iteration
  if (!ready_.linked()) return;
  batch.insert_before(ready_);
  ready_.unlink();
  while (batch.linked()) {
    auto& waiter = static_cast<Waiter&>(*batch.next);
    waiter.unlink();
    waiter.wake();
  }
}

void Loop::schedule(Timer& timer) {
  const auto ticks = (timer.when_ - wheel_start_) / tick + 1;
  const auto first = static_cast<std::int64_t>(wheel_tick_);
  const auto chosen =
      std::clamp<std::int64_t>(ticks, first, first + static_cast<std::int64_t>(slots) - 1);
  const auto slot = static_cast<std::size_t>(chosen) % slots;
  timer.insert_before(wheel_[slot]);
  wheel_used_[slot / 64] |= std::uint64_t{1} << (slot % 64);
}

Instant Loop::next_timer() const {
  const std::size_t start = wheel_tick_ % slots;
  for (std::size_t step = 0; step <= slots / 64; ++step) {
    const std::size_t word = (start / 64 + step) % (slots / 64);
    std::uint64_t bits = wheel_used_[word];
    if (step == 0) bits &= ~std::uint64_t{0} << (start % 64);
    if (step == slots / 64) bits &= (std::uint64_t{1} << (start % 64)) - 1;
    if (bits == 0) continue;
    const std::size_t slot = word * 64 + static_cast<std::size_t>(std::countr_zero(bits));
    const std::size_t ahead = (slot + slots - start) % slots;
    return wheel_start_ + static_cast<std::int64_t>(wheel_tick_ + ahead) * tick;
  }
  return never;
}

/// Runs the timers that were due at this instant.
void Loop::run_timers(Instant latest) {
  const auto due = static_cast<std::uint64_t>((latest - wheel_start_) / tick);
  if (due < wheel_tick_) return;
  // After a long sleep every slot is visited once, not once per tick.
  const std::uint64_t steps = std::min<std::uint64_t>(due - wheel_tick_ + 1, slots);
  const std::uint64_t first = due + 1 - steps;
  wheel_tick_ = due + 1;
  for (std::uint64_t at = first; at <= due; ++at) {
    const std::size_t slot = at % slots;
    const std::uint64_t bit = std::uint64_t{1} << (slot % 64);
    if ((wheel_used_[slot / 64] & bit) == 0) continue;
    wheel_used_[slot / 64] &= ~bit;
    Node batch;
    if (!wheel_[slot].linked()) continue;
    batch.insert_before(wheel_[slot]);
    wheel_[slot].unlink();
    while (batch.linked()) {
      auto& timer = static_cast<Timer&>(*batch.next);
      timer.unlink();
      if (timer.when_ > latest) {
        schedule(timer);  // was beyond the horizon when it was armed
      } else {
        timer.action_(timer);
      }
    }
  }
}

}  // namespace evenkeel
