// One event loop per thread: readiness of descriptors, coarse timers, work posted by other threads.
// Linux epoll, edge triggered: a descriptor is registered once, so a wait needs no system call. The
// kernel arms no timer for a wait either: one descriptor tells of the next timer, and is set about
// once a tick.
#pragma once

#include <sys/uio.h>

#include <array>
#include <atomic>
#include <coroutine>
#include <cstdint>
#include <functional>
#include <mutex>
#include <utility>
#include <vector>

#include "evenkeel/base/busy_poll.h"
#include "evenkeel/base/clock.h"
#include "evenkeel/base/task.h"

struct epoll_event;

namespace evenkeel {

class Loop;

/// A node of an intrusive, circular, doubly linked list; unlinks itself when destroyed.
struct Node {
  Node() = default;
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;
  ~Node() { unlink(); }
  bool linked() const { return next != this; }
  void unlink() {
    previous->next = next;
    next->previous = previous;
    next = previous = this;
  }
  void insert_before(Node& position) {
    next = &position;
    previous = position.previous;
    previous->next = this;
    position.previous = this;
  }
  Node* next = this;
  Node* previous = this;
};

/// Calls an action at an instant or at most one tick (32 ms) after it. Arming and disarming take a
/// few instructions and no system call. Disarmed when destroyed.
class Timer : private Node {
 public:
  using Action = void (*)(Timer&);
  explicit Timer(Action action) : action_(action) {}

  /// Arms the timer, or moves it. `never` disarms it.
  void arm(Loop& loop, Instant when);
  void disarm() { unlink(); }
  bool armed() const { return linked(); }
  Instant when() const { return when_; }

 private:
  friend class Loop;
  Action action_;
  Instant when_{};
};

/// Something that a loop can wake: a coroutine or a plain function. Its destructor unlinks it.
class Waiter : private Node {
 public:
  using Action = void (*)(Waiter&);
  explicit Waiter(Action action) : action_(action) {}
  void wake() { action_(*this); }
  /// Removes it from the list that it is in, if any.
  void leave() { unlink(); }

 private:
  friend class Loop;
  friend class WaiterList;
  Action action_;
};

/// A Waiter, Timer or HighResolutionTimer that calls `Method` of its owner. `arguments` come before
/// the action in the constructor of `Event`.
template <class Event, auto Method>
class MethodEvent;
template <class Event, class Owner, void (Owner::*Method)()>
class MethodEvent<Event, Method> final : public Event {
 public:
  template <class... Arguments>
  explicit MethodEvent(Owner& owner, Arguments&&... arguments)
      : Event(std::forward<Arguments>(arguments)...,
              [](auto& self) { (static_cast<MethodEvent&>(self).owner_.*Method)(); }),
        owner_(owner) {}

 private:
  Owner& owner_;
};

/// `MethodWaiter<&Server::close_idle> idle_{*this};`
template <auto Method>
using MethodWaiter = MethodEvent<Waiter, Method>;
/// `MethodTimer<&Server::close_idle> idle_timer_{*this};`
template <auto Method>
using MethodTimer = MethodEvent<Timer, Method>;

/// Base of awaitables that suspend a coroutine until they are woken.
class CoroutineWaiter : public Waiter {
 protected:
  CoroutineWaiter()
      : Waiter([](Waiter& self) { static_cast<CoroutineWaiter&>(self).coroutine_.resume(); }) {}
  std::coroutine_handle<> coroutine_;
};

/// Waiters in the order in which they were added. A waiter is in one list at most.
class WaiterList {
 public:
  /// Appends a waiter.
  void add(Waiter& waiter) {
    waiter.unlink();
    waiter.insert_before(list_);
  }
  bool empty() const { return !list_.linked(); }
  /// The waiter that was added first. REQUIRES: not empty.
  Waiter& first() const { return static_cast<Waiter&>(*list_.next); }
  /// Removes the first waiter and wakes it. REQUIRES: not empty.
  void wake_first() {
    auto& waiter = static_cast<Waiter&>(*list_.next);
    waiter.unlink();
    waiter.wake();
  }
  void wake_all() {
    while (!empty()) wake_first();
  }

 private:
  Node list_;
};

/// What ended a wait.
enum class Wake : std::uint8_t { ready, expired, interrupted };

/// One descriptor in a loop. Events are edge triggered, so readiness is kept here between events:
/// after a read or write that exhausts the kernel's buffer, call `mark_drained`,
/// `mark_not_readable` or `mark_not_writable`.
///
/// Thread: the loop's. The descriptor must be closed after `release` or the destructor.
class Watch {
 public:
  Watch() = default;
  Watch(Loop& loop, int fd);
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;
  ~Watch() { release(); }

  /// False when the kernel cannot watch another descriptor.
  [[nodiscard]] bool try_open(Loop& loop, int fd);
  /// Does what `try_open` does, but throws std::system_error.
  void open(Loop& loop, int fd);
  /// Stops watching the descriptor without closing it; waiters are not woken.
  void release();
  /// Does what `release` does without the system call, for a descriptor that the caller closes at
  /// once, which also removes it from the kernel's set.
  void release_before_close();
  int fd() const { return fd_; }
  Loop& loop() const { return *loop_; }

  bool readable() const { return readable_ || buffered_; }
  /// True if the kernel may have bytes, whether or not TLS holds decrypted ones.
  bool kernel_readable() const { return readable_; }
  /// Tells whether TLS holds bytes that it has read already: `readable` regardless of the kernel.
  void set_buffered(bool buffered) { buffered_ = buffered; }
  bool writable() const { return writable_; }
  /// True if the peer will send no more (FIN), or the connection is broken.
  bool peer_closed() const { return peer_closed_; }
  /// True if the connection is broken or closed both ways.
  bool broken() const { return broken_; }
  /// A read took everything; after a FIN the end of file is still to be read.
  void mark_drained() { readable_ = peer_closed_; }
  /// A read found nothing.
  void mark_not_readable() { readable_ = false; }
  /// A write found no room.
  void mark_not_writable() { writable_ = broken_; }

  class Wait;
  /// `auto wake = co_await watch.until_readable(deadline);` One waiter at a time.
  Wait until_readable(Instant deadline = never);
  Wait until_writable(Instant deadline = never);
  /// Ends the current wait for readability, or the next one if there is none, with
  /// `Wake::interrupted`. Resumes it in the loop's next step, not from inside this call.
  void interrupt();

  /// The loop wakes `waiter` when the peer closes or breaks the connection; null: none.
  void on_hangup(Waiter* waiter) { hangup_waiter_ = waiter; }
  /// The loop wakes `waiter` when there is something to read and no `until_readable` is pending;
  /// null: none.
  void on_readable(Waiter* waiter) { idle_waiter_ = waiter; }

 private:
  friend class Loop;
  friend class Wait;

  Loop* loop_ = nullptr;
  int fd_ = -1;
  bool readable_ = false;
  bool buffered_ = false;
  bool writable_ = false;
  bool peer_closed_ = false;
  bool broken_ = false;
  bool interrupted_ = false;
  Wait* reader_ = nullptr;
  Wait* writer_ = nullptr;
  Waiter* hangup_waiter_ = nullptr;
  Waiter* idle_waiter_ = nullptr;
};

/// What `until_readable` and `until_writable` return.
class Watch::Wait : private Waiter, private Timer {
 public:
  Wait(Watch& watch, bool reads, Instant deadline);
  Wait(const Wait&) = delete;
  ~Wait() { detach(); }
  bool await_ready();
  void await_suspend(std::coroutine_handle<> waiter);
  Wake await_resume() const { return wake_; }

 private:
  friend class Watch;
  friend class Loop;
  void detach();
  void finish(Wake wake);

  Watch& watch_;
  std::coroutine_handle<> waiter_;
  Instant deadline_;
  bool reads_;
  Wake wake_ = Wake::ready;
};

/// A flag that others on the same loop raise and one coroutine waits for.
class Signal {
 public:
  explicit Signal(Loop& loop) : loop_(loop) {}
  Signal(const Signal&) = delete;
  Signal& operator=(const Signal&) = delete;

  /// Raises the flag; the waiting coroutine runs in the loop's next step, not inside this call.
  void raise();
  bool raised() const { return raised_; }

  class Wait;
  /// `auto wake = co_await signal.wait(deadline);` or, where the reason does not matter,
  /// `co_await signal.wait();`. Lowers the flag.
  Wait wait(Instant deadline = never);

 private:
  Loop& loop_;
  bool raised_ = false;
  Wait* waiter_ = nullptr;
};

class Signal::Wait : private Waiter, private Timer {
 public:
  Wait(Signal& signal, Instant deadline);
  Wait(const Wait&) = delete;
  ~Wait();
  bool await_ready() const { return signal_.raised_; }
  void await_suspend(std::coroutine_handle<> waiter);
  Wake await_resume();

 private:
  friend class Signal;
  Signal& signal_;
  std::coroutine_handle<> waiter_;
  Instant deadline_;
  Wake wake_ = Wake::ready;
};

class Loop {
 public:
  Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;
  /// Drops the spawned tasks that are not done. Thread: the one that ran the loop, or any after
  /// that one has ended.
  ~Loop();

  /// Runs until `stop`. Thread: the one that owns the loop from now on.
  void run();
  /// Runs until `done()` holds, which is evaluated after each iteration, or the deadline passes:
  /// false.
  bool run_until(const std::function<bool()>& done, Instant deadline = never);
  /// Ends `run` after everything posted before. Thread: any.
  void stop();

  /// Runs `work` on the loop's thread, soon. Thread: any.
  void post(std::function<void()> work);

  /// Owns the task until it is done; drops it with the loop. Thread: the loop's.
  void spawn(Task<void> task);
  /// Lets the loop poll for a moment before it sleeps (see BusyPoll), as by default, or not.
  /// Thread: the loop's.
  void set_busy_polling(bool allowed) { busy_poll_.enable(allowed); }
  /// Drops the spawned tasks that are not done. REQUIRES: not called from inside an iteration.
  void drop_spawned();
  /// How many spawned tasks are not done yet.
  std::size_t spawned() const { return spawned_count_; }

  /// When the current iteration began, or `read_clock` was last called. Reads no clock.
  Instant now() const { return now_; }
  /// Reads the clock and updates `now`, for callers that need microseconds.
  Instant read_clock() { return now_ = Clock::now(); }

  /// How many iterations the loop has run. Thread: any.
  std::uint64_t iterations() const { return iterations_.load(std::memory_order_relaxed); }
  /// The longest time from the kernel's report of an event to the end of the iteration that
  /// handled it, since the last call. Thread: any.
  Duration take_max_iteration_time() {
    return Duration(max_iteration_time_.exchange(0, std::memory_order_relaxed));
  }

  /// Wakes a waiter once in the loop's next step, unless it is destroyed first. Thread: the
  /// loop's.
  void wake_soon(Waiter& waiter);

  /// `co_await loop.yield();` lets other work run: continues in the next iteration.
  class Yield;
  Yield yield();
  /// `co_await loop.after_events();` continues after the other events of this iteration, if there
  /// are any. All their writes can then be sent at once, which wakes the receiver only once.
  class AfterEvents;
  AfterEvents after_events();
  /// `co_await loop.sleep_until(when);`
  class Sleep;
  Sleep sleep_until(Instant when);
  Sleep sleep_for(Duration duration);

 private:
  friend class Timer;
  friend class Watch;
  friend class Signal;
  friend class Watch::Wait;
  friend class Yield;
  friend class AfterEvents;
  struct Spawned;

  static constexpr Duration tick = std::chrono::milliseconds(32);
  static constexpr std::size_t slots =
      512;  // a horizon of 16 s; later timers are scheduled again when it is reached

  static constexpr int max_events = 256;  // of one iteration

  void run_once(Instant wake_at);
  void arm_ticker(Instant when);
  int wait_for_events(epoll_event* events, Instant& until);
  void run_ready();
  void run_posted();
  void run_timers(Instant latest);
  Instant next_timer() const;
  void schedule(Timer& timer);
  std::uint64_t enter(Watch& watch);
  void leave(Watch& watch);
  void dispatch(std::uint64_t token, std::uint32_t events);

  struct Slot {
    Watch* watch = nullptr;
    std::uint32_t generation = 0;
  };

  int epoll_ = -1;
  int wakeup_ = -1;
  int ticker_ = -1;            // a timerfd that ends a wait
  Instant ticker_at_ = never;  // when it expires; `never` once the loop has seen that
  BusyPoll busy_poll_;
  Instant now_;
  Instant iteration_ended_;
  Instant wheel_start_;           // of tick 0
  std::uint64_t wheel_tick_ = 0;  // the next tick to run
  std::array<Node, slots> wheel_;
  std::array<std::uint64_t, slots / 64> wheel_used_{};
  Node ready_;
  bool more_events_ = false;      // of this iteration, not dispatched yet
  unsigned full_iterations_ = 0;  // in a row
  std::vector<Slot> watches_;     // by descriptor
  Node spawned_;
  std::size_t spawned_count_ = 0;
  std::mutex posted_mutex_;
  std::vector<std::function<void()>> posted_;
  bool wakeup_pending_ = false;  // guarded by posted_mutex_
  bool stopping_ = false;        // set by the loop itself
  std::atomic<std::uint64_t> iterations_{0};
  std::atomic<Duration::rep> max_iteration_time_{0};
};

class Loop::Yield : private CoroutineWaiter {
 public:
  explicit Yield(Loop& loop) : loop_(loop) {}
  Yield(const Yield&) = delete;
  bool await_ready() const { return false; }
  void await_suspend(std::coroutine_handle<> waiter) {
    coroutine_ = waiter;
    loop_.wake_soon(*this);
  }
  void await_resume() const {}

 private:
  Loop& loop_;
};

class Loop::AfterEvents : private CoroutineWaiter {
 public:
  explicit AfterEvents(Loop& loop) : loop_(loop) {}
  AfterEvents(const AfterEvents&) = delete;
  bool await_ready() const { return !loop_.more_events_; }
  void await_suspend(std::coroutine_handle<> waiter) {
    coroutine_ = waiter;
    loop_.wake_soon(*this);
  }
  void await_resume() const {}

 private:
  Loop& loop_;
};

class Loop::Sleep : private Timer {
 public:
  Sleep(Loop& loop, Instant when) : Timer(&Sleep::resume), loop_(loop), when_(when) {}
  Sleep(const Sleep&) = delete;
  bool await_ready() const { return when_ <= loop_.now(); }
  void await_suspend(std::coroutine_handle<> waiter) {
    waiter_ = waiter;
    arm(loop_, when_);
  }
  void await_resume() const {}

 private:
  static void resume(Timer& self) { static_cast<Sleep&>(self).waiter_.resume(); }
  Loop& loop_;
  Instant when_;
  std::coroutine_handle<> waiter_;
};

inline Loop::Yield Loop::yield() { return Yield(*this); }
inline Loop::AfterEvents Loop::after_events() { return AfterEvents(*this); }
inline Loop::Sleep Loop::sleep_until(Instant when) { return Sleep(*this, when); }
inline Loop::Sleep Loop::sleep_for(Duration duration) { return Sleep(*this, now_ + duration); }
inline Watch::Wait Watch::until_readable(Instant deadline) { return Wait(*this, true, deadline); }
inline Watch::Wait Watch::until_writable(Instant deadline) { return Wait(*this, false, deadline); }
inline Signal::Wait Signal::wait(Instant deadline) { return Wait(*this, deadline); }

/// Waits for a task or for the end of a connection, whichever comes first:
/// `co_await UntilDoneOrHangup(task, watch, half_close_counts);` then `task.ready()` says which.
/// With `half_close_counts`, a peer that only ended its sending (FIN) counts as gone.
template <class T>
class UntilDoneOrHangup : private Waiter {
 public:
  UntilDoneOrHangup(Task<T>& task, Watch& watch, bool half_close_counts)
      : Waiter(&UntilDoneOrHangup::hangup),
        task_(task),
        watch_(watch),
        half_close_counts_(half_close_counts) {}
  UntilDoneOrHangup(const UntilDoneOrHangup&) = delete;
  ~UntilDoneOrHangup() { detach(); }

  bool await_ready() const { return task_.ready() || gone(); }
  void await_suspend(std::coroutine_handle<> waiter) {
    waiter_ = waiter;
    task_.resume_when_done(waiter);
    watch_.on_hangup(this);
  }
  void await_resume() { detach(); }

 private:
  bool gone() const { return half_close_counts_ ? watch_.peer_closed() : watch_.broken(); }
  static void hangup(Waiter& self) {
    auto& me = static_cast<UntilDoneOrHangup&>(self);
    if (!me.gone()) return;
    auto waiter = me.waiter_;
    me.detach();
    waiter.resume();
  }
  void detach() {
    if (!waiter_) return;
    waiter_ = {};
    watch_.on_hangup(nullptr);
    task_.resume_when_done({});
  }

  Task<T>& task_;
  Watch& watch_;
  bool half_close_counts_;
  std::coroutine_handle<> waiter_;
};

}  // namespace evenkeel
