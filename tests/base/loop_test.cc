#include "evenkeel/base/loop.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "evenkeel/base/high_resolution_timer.h"
#include "evenkeel/base/rng.h"
#include "sanitizers.h"

namespace {
int kernel_timers_set = 0;
}

/// In place of the C library's, to count the calls.
extern "C" int timerfd_settime(int fd, int flags, const itimerspec* setting,
                               itimerspec* old) noexcept {
  ++kernel_timers_set;
  return static_cast<int>(syscall(SYS_timerfd_settime, fd, flags, setting, old));
}

namespace evenkeel {
namespace {

using namespace std::chrono_literals;

/// Two ends of a non-blocking stream.
struct Pair {
  Pair() { EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0); }
  Pair(const Pair&) = delete;
  ~Pair() {
    for (const int fd : fds) {
      if (fd >= 0) close(fd);
    }
  }
  void send(std::string_view text) {
    EXPECT_EQ(write(fds[1], text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }
  void close_other() { close(std::exchange(fds[1], -1)); }
  int ours() const { return fds[0]; }
  int fds[2] = {-1, -1};
};

bool eventually(Loop& loop, const std::function<bool()>& holds) {
  return loop.run_until(holds, Clock::now() + 20s);
}

struct Alarm : Timer {
  Alarm() : Timer([](Timer& self) { static_cast<Alarm&>(self).ring(); }) {}
  void ring() {
    ++rings;
    if (on_ring) on_ring();
  }
  int rings = 0;
  std::function<void()> on_ring;
};

struct RecordingWaiter : Waiter {
  explicit RecordingWaiter(std::string& notes, char own_name)
      : Waiter([](Waiter& self) {
          auto& waiter = static_cast<RecordingWaiter&>(self);
          waiter.woken += waiter.name;
          if (waiter.on_wake) waiter.on_wake();
        }),
        woken(notes),
        name(own_name) {}
  std::string& woken;
  char name;
  std::function<void()> on_wake;
};

// ---- timers ------------------------------------------------------------------------------------

TEST(Timer, FiresOnceNotEarlyAndAtMostATickLate) {
  Loop loop;
  Alarm alarm;
  const Instant due = Clock::now() + 100ms;
  alarm.arm(loop, due);

  ASSERT_TRUE(eventually(loop, [&] { return alarm.rings > 0; }));

  EXPECT_GE(Clock::now(), due);
  EXPECT_LT(Clock::now() - due, 32ms + 200ms);  // a tick, and what a busy machine adds
  EXPECT_FALSE(alarm.armed());
  loop.run_until([] { return false; }, Clock::now() + 50ms);
  EXPECT_EQ(alarm.rings, 1);
}

TEST(Timer, FiresInTheNextIterationsWhenItsTimeHasPassed) {
  Loop loop;
  Alarm alarm;
  alarm.arm(loop, Clock::now() - 1h);
  EXPECT_TRUE(eventually(loop, [&] { return alarm.rings == 1; }));
}

TEST(Timer, DoesNotFireWhenDisarmedOrDestroyedOrNever) {
  Loop loop;
  Alarm disarmed;
  Alarm never_armed;
  auto destroyed = std::make_unique<Alarm>();
  disarmed.arm(loop, Clock::now() + 10ms);
  never_armed.arm(loop, never);
  destroyed->arm(loop, Clock::now() + 10ms);
  EXPECT_FALSE(never_armed.armed());

  disarmed.disarm();
  destroyed.reset();
  loop.run_until([] { return false; }, Clock::now() + 100ms);

  EXPECT_EQ(disarmed.rings, 0);
}

TEST(Timer, FiresAtTheLastTimeItWasArmedFor) {
  Loop loop;
  Alarm alarm;
  alarm.arm(loop, Clock::now() + 10ms);
  const Instant due = Clock::now() + 150ms;
  alarm.arm(loop, due);

  ASSERT_TRUE(eventually(loop, [&] { return alarm.rings > 0; }));

  EXPECT_GE(Clock::now(), due);
}

TEST(Timer, MayArmItselfAndDestroyOthersWhenItFires) {
  Loop loop;
  Alarm again;
  auto other = std::make_unique<Alarm>();
  again.on_ring = [&] {
    other.reset();
    if (again.rings < 3) again.arm(loop, loop.now());
  };
  const Instant due = Clock::now() + 10ms;
  again.arm(loop, due);
  other->arm(loop, due);

  EXPECT_TRUE(eventually(loop, [&] { return again.rings == 3; }));
}

TEST(Timer, ThousandsFireInTheOrderOfTheirTicks) {
  Loop loop;
  Rng rng(3);
  struct Numbered : Alarm {
    Instant due;
  };
  std::vector<std::unique_ptr<Numbered>> alarms;
  std::vector<Instant> rung;
  const Instant start = Clock::now();
  for (int i = 0; i < 5000; ++i) {
    auto alarm = std::make_unique<Numbered>();
    alarm->due = start + std::chrono::microseconds(rng.below(600'000));
    auto* raw = alarm.get();
    alarm->on_ring = [&rung, &loop, raw] {
      EXPECT_LE(raw->due, loop.now());
      rung.push_back(raw->due);
    };
    alarm->arm(loop, alarm->due);
    alarms.push_back(std::move(alarm));
  }

  ASSERT_TRUE(eventually(loop, [&] { return rung.size() == 5000; }));

  for (std::size_t i = 1; i < rung.size(); ++i) EXPECT_LT(rung[i - 1] - rung[i], 32ms);
}

TEST(Timer, BeyondTheWheelsHorizonDoesNotFireEarly) {
  Loop loop;
  Alarm far;
  Alarm near;
  far.arm(loop, Clock::now() + 1h);
  near.arm(loop, Clock::now() + 50ms);

  EXPECT_TRUE(eventually(loop, [&] { return near.rings == 1; }));

  EXPECT_EQ(far.rings, 0);
  EXPECT_TRUE(far.armed());
}

TEST(Timer, FiresInTimeWhenALaterOneWasArmedBefore) {
  Loop loop;
  Alarm later;
  later.arm(loop, Clock::now() + 10s);
  loop.run_until([] { return false; }, Clock::now() + 40ms);
  Alarm earlier;
  const Instant due = Clock::now() + 100ms;
  earlier.arm(loop, due);

  ASSERT_TRUE(eventually(loop, [&] { return earlier.rings > 0; }));

  EXPECT_GE(Clock::now(), due);
  EXPECT_LT(Clock::now() - due, 32ms + 200ms);
  EXPECT_EQ(later.rings, 0);
}

TEST(Timer, WakesTheLoopOnceForATimeThatNoTimerNeedsAnyMore) {
  Loop loop;
  Alarm moved;
  moved.arm(loop, Clock::now() + 100ms);
  loop.post([] {});
  loop.run_until([&] { return loop.iterations() > 0; });  // it waits for the 100 ms from now on
  const Instant due = Clock::now() + 300ms;
  moved.arm(loop, due);
  const auto before = loop.iterations();

  ASSERT_TRUE(eventually(loop, [&] { return moved.rings > 0; }));

  EXPECT_GE(Clock::now(), due);
  EXPECT_LE(loop.iterations() - before, 4u);
}

// ---- waiters -----------------------------------------------------------------------------------

TEST(WaiterList, WakesInInsertionOrder) {
  std::string woken;
  RecordingWaiter a(woken, 'a');
  RecordingWaiter b(woken, 'b');
  RecordingWaiter c(woken, 'c');
  WaiterList list;
  EXPECT_TRUE(list.empty());
  for (RecordingWaiter* waiter : {&a, &b, &c}) list.add(*waiter);
  list.add(a);  // again: at the end now

  list.wake_first();
  EXPECT_EQ(woken, "b");
  list.wake_all();

  EXPECT_EQ(woken, "bca");
  EXPECT_TRUE(list.empty());
}

TEST(WaiterList, DropsRemovedAndDestroyedWaiters) {
  std::string woken;
  WaiterList list;
  RecordingWaiter a(woken, 'a');
  {
    RecordingWaiter b(woken, 'b');
    list.add(a);
    list.add(b);
  }
  RecordingWaiter c(woken, 'c');
  list.add(c);
  a.leave();
  a.leave();

  list.wake_all();

  EXPECT_EQ(woken, "c");
}

TEST(WaiterList, MayBeDestroyedBeforeItsWaiters) {
  std::string woken;
  RecordingWaiter a(woken, 'a');
  {
    WaiterList list;
    list.add(a);
  }
  a.leave();
  WaiterList other;
  other.add(a);
  other.wake_all();
  EXPECT_EQ(woken, "a");
}

TEST(Loop, WakeSoonWakesOnceAndNotReentrantly) {
  Loop loop;
  std::string woken;
  RecordingWaiter a(woken, 'a');
  loop.wake_soon(a);
  loop.wake_soon(a);
  EXPECT_EQ(woken, "");

  EXPECT_TRUE(eventually(loop, [&] { return !woken.empty(); }));

  EXPECT_EQ(woken, "a");
}

TEST(Loop, DefersWaitersWokenDuringWakeups) {
  Loop loop;
  std::string woken;
  RecordingWaiter a(woken, 'a');
  int iterations = 0;
  a.on_wake = [&] {
    if (++iterations < 3) loop.wake_soon(a);
  };
  const std::uint64_t before = loop.iterations();
  loop.wake_soon(a);

  EXPECT_TRUE(eventually(loop, [&] { return iterations == 3; }));

  EXPECT_GE(loop.iterations() - before, 3u);
}

TEST(Loop, LetsAWaiterDestroyTheNext) {
  Loop loop;
  std::string woken;
  RecordingWaiter a(woken, 'a');
  auto b = std::make_unique<RecordingWaiter>(woken, 'b');
  a.on_wake = [&] { b.reset(); };
  loop.wake_soon(a);
  loop.wake_soon(*b);

  EXPECT_TRUE(eventually(loop, [&] { return !woken.empty(); }));

  EXPECT_EQ(woken, "a");
}

struct Switch {
  explicit Switch(Loop& loop) : exact_timer(*this, loop) {}
  void turn_on() { on = true; }
  bool on = false;
  MethodWaiter<&Switch::turn_on> waiter{*this};
  MethodTimer<&Switch::turn_on> timer{*this};
  MethodHighResolutionTimer<&Switch::turn_on> exact_timer;
};

TEST(MethodEvent, CallsTheMethodOfItsOwner) {
  Loop loop;
  Switch by_waiter(loop);
  Switch by_timer(loop);
  Switch by_exact_timer(loop);

  loop.wake_soon(by_waiter.waiter);
  by_timer.timer.arm(loop, Clock::now());
  by_exact_timer.exact_timer.arm(Clock::now());

  EXPECT_TRUE(eventually(loop, [&] { return by_waiter.on && by_timer.on && by_exact_timer.on; }));
}

// ---- work from other threads -------------------------------------------------------------------

TEST(Loop, RunsWhatOtherThreadsPost) {
  Loop loop;
  constexpr int threads = 4;
  constexpr int each = 2000;
  int done = 0;
  std::vector<std::thread> posters;
  for (int i = 0; i < threads; ++i) {
    posters.emplace_back([&] {
      for (int j = 0; j < each; ++j) loop.post([&done] { ++done; });
    });
  }

  EXPECT_TRUE(eventually(loop, [&] { return done == threads * each; }));

  for (auto& poster : posters) poster.join();
}

TEST(Loop, RunsUntilItIsStopped) {
  Loop loop;
  bool posted = false;
  std::thread other([&] {
    loop.post([&] { posted = true; });
    loop.stop();
  });

  loop.run();
  other.join();

  EXPECT_TRUE(posted);
}

TEST(Loop, DropsWhatWasPostedAndNeverRun) {
  auto held = std::make_shared<int>(1);
  const std::weak_ptr<int> watched = held;
  {
    Loop loop;
    loop.post([held = std::move(held)] {});
  }
  EXPECT_TRUE(watched.expired());
}

// ---- tasks -------------------------------------------------------------------------------------

Task<void> count_iterations(Loop& loop, int& count, int upto) {
  while (count < upto) {
    ++count;
    co_await loop.yield();
  }
}

Task<void> sleep_and_note(Loop& loop, Instant when, std::string& notes, char name) {
  co_await loop.sleep_until(when);
  notes += name;
}

struct Note {
  ~Note() { notes += name; }
  std::string& notes;
  char name;
};

Task<void> hold_forever(Signal& signal, std::string& notes) {
  const Note note{notes, 'x'};
  co_await signal.wait();
}

TEST(Loop, IteratesForEveryYield) {
  Loop loop;
  int count = 0;
  loop.spawn(count_iterations(loop, count, 5));
  EXPECT_EQ(count, 1);
  EXPECT_EQ(loop.spawned(), 1u);

  EXPECT_TRUE(eventually(loop, [&] { return loop.spawned() == 0; }));

  EXPECT_EQ(count, 5);
}

Task<void> answer_after_events(Loop& loop, int fd, char name, std::string& notes) {
  Watch watch(loop, fd);
  co_await watch.until_readable();
  notes += name;
  co_await loop.after_events();
  notes += static_cast<char>(name - 'a' + 'A');
}

TEST(Loop, ReadsAllEventsOfAnIterationBeforeAnswering) {
  Loop loop;
  Pair pairs[3];
  std::string notes;
  for (int i = 0; i < 3; ++i) {
    loop.spawn(answer_after_events(loop, pairs[i].ours(), static_cast<char>('a' + i), notes));
  }
  bool ready_to_send = false;  // past the first events, which report writability
  loop.post([&ready_to_send] { ready_to_send = true; });
  ASSERT_TRUE(eventually(loop, [&] { return ready_to_send; }));

  for (Pair& pair : pairs) pair.send("x");
  ASSERT_TRUE(eventually(loop, [&] { return notes.size() == 6; }));

  // The last one has no more events to wait for; the others follow in their order.
  EXPECT_EQ(notes, "abcCAB");
}

TEST(Loop, AnswersALoneEventAtOnce) {
  Loop loop;
  Pair pair;
  std::string notes;
  loop.spawn(answer_after_events(loop, pair.ours(), 'a', notes));
  pair.send("x");

  ASSERT_TRUE(eventually(loop, [&] { return notes.size() == 2; }));
  EXPECT_EQ(notes, "aA");
}

Task<void> echo_until_closed(Loop& loop, int fd) {
  Watch watch(loop, fd);
  while (!watch.peer_closed()) {
    auto wake = co_await watch.until_readable(loop.now() + 30s);
    if (wake != Wake::ready) co_return;
    char byte;
    const bool asked = read(fd, &byte, 1) == 1;
    watch.mark_drained();
    if (asked) {
      EXPECT_EQ(write(fd, &byte, 1), 1);
    }
  }
}

TEST(Loop, SetsTheKernelsTimerOnceATickAndNotOnceAWait) {
  Loop loop;
  Pair pair;
  constexpr int round_trips = 2000;
  loop.spawn(echo_until_closed(loop, pair.ours()));
  std::thread client([&pair] {
    for (int i = 0; i < round_trips; ++i) {
      pair.send("x");
      for (char byte = 0; read(pair.fds[1], &byte, 1) != 1;) std::this_thread::yield();
    }
    pair.close_other();
  });
  kernel_timers_set = 0;
  const Instant began = Clock::now();

  EXPECT_TRUE(eventually(loop, [&] { return loop.spawned() == 0; }));
  client.join();

  EXPECT_GE(loop.iterations(), 1000u);
  EXPECT_LE(kernel_timers_set, 2 + (Clock::now() - began) / 32ms);
}

TEST(Loop, DoesNotWakeWhileThereIsNothingToDo) {
  Loop loop;
  Alarm far;
  far.arm(loop, Clock::now() + 1h);

  loop.run_until([] { return false; }, Clock::now() + 300ms);

  EXPECT_LE(loop.iterations(), 2u);
}

int answering_fd = -1;
Instant answered_at;

/// As if the process were stopped until `answered_at`, and bytes arrived meanwhile.
void answer_late(int) {
  while (Clock::now() < answered_at) usleep(1000);
  [[maybe_unused]] auto written = write(answering_fd, "x", 1);
}

Task<void> wait_for_answer(Loop& loop, int fd, Instant deadline, Wake& wake) {
  Watch watch(loop, fd);
  wake = co_await watch.until_readable(deadline);
}

TEST(Loop, ReportsWhatArrivedWhileItWasStoppedThoughTheDeadlineHasPassed) {
  struct sigaction action{};
  struct sigaction old{};
  action.sa_handler = answer_late;
  ASSERT_EQ(sigaction(SIGUSR1, &action, &old), 0);
  for (int attempt = 0; attempt < 3; ++attempt) {
    Loop loop;
    Pair pair;
    Wake wake = Wake::interrupted;
    const Instant deadline = Clock::now() + 100ms;
    answering_fd = pair.fds[1];
    answered_at = deadline + 100ms;
    loop.spawn(wait_for_answer(loop, pair.ours(), deadline, wake));
    std::thread stopper([&loop, self = pthread_self()] {
      while (loop.iterations() == 0) std::this_thread::yield();
      pthread_kill(self, SIGUSR1);
    });

    EXPECT_TRUE(eventually(loop, [&] { return loop.spawned() == 0; }));

    stopper.join();
    EXPECT_EQ(wake, Wake::ready);
  }
  sigaction(SIGUSR1, &old, nullptr);
}

TEST(Loop, SaysWhenTheProcessHasNoDescriptorsLeft) {
#ifdef EVENKEEL_SANITIZED
  GTEST_SKIP() << "a sanitizer needs descriptors of its own";
#endif
  rlimit old{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &old), 0);
  const int next = dup(STDERR_FILENO);
  ASSERT_GE(next, 0);
  close(next);
  for (rlim_t room = 0; room < 3; ++room) {  // a loop has three
    rlimit few = old;
    few.rlim_cur = static_cast<rlim_t>(next) + room;
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
    EXPECT_THROW(Loop(), std::system_error);
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &old), 0);
    const int again = dup(STDERR_FILENO);
    EXPECT_EQ(again, next) << "a descriptor was left open";
    close(again);
  }
}

TEST(Loop, WakesSleepersInOrder) {
  Loop loop;
  std::string notes;
  const Instant now = Clock::now();
  loop.spawn(sleep_and_note(loop, now + 200ms, notes, 'c'));
  loop.spawn(sleep_and_note(loop, now + 100ms, notes, 'b'));
  loop.spawn(sleep_and_note(loop, now - 1ms, notes, 'a'));

  EXPECT_TRUE(eventually(loop, [&] { return notes == "abc"; }));
}

TEST(Loop, DropsItsTasksWhenItEnds) {
  std::string notes;
  {
    Loop loop;
    Signal signal(loop);
    loop.spawn(hold_forever(signal, notes));
    loop.drop_spawned();
    EXPECT_EQ(notes, "x");
    EXPECT_EQ(loop.spawned(), 0u);
  }
  std::unique_ptr<Signal> signal;
  {
    Loop loop;
    signal = std::make_unique<Signal>(loop);
    loop.spawn(hold_forever(*signal, notes));
  }
  EXPECT_EQ(notes, "xx");
}

// ---- signals -----------------------------------------------------------------------------------

Task<void> wait_for(Signal& signal, Instant deadline, std::vector<Wake>& wakes) {
  auto wake = co_await signal.wait(deadline);
  wakes.push_back(wake);
}

TEST(Signal, WakesItsWaiterInTheNextStep) {
  Loop loop;
  Signal signal(loop);
  std::vector<Wake> wakes;
  loop.spawn(wait_for(signal, never, wakes));

  signal.raise();
  EXPECT_TRUE(wakes.empty());

  EXPECT_TRUE(eventually(loop, [&] { return !wakes.empty(); }));
  EXPECT_EQ(wakes, std::vector<Wake>{Wake::ready});
  EXPECT_FALSE(signal.raised());
}

TEST(Signal, IsRememberedUntilTheNextWait) {
  Loop loop;
  Signal signal(loop);
  std::vector<Wake> wakes;
  signal.raise();
  signal.raise();

  loop.spawn(wait_for(signal, never, wakes));

  EXPECT_EQ(wakes, std::vector<Wake>{Wake::ready});
  EXPECT_FALSE(signal.raised());
}

TEST(Signal, ReportsAnExpiredDeadline) {
  Loop loop;
  Signal signal(loop);
  std::vector<Wake> wakes;
  loop.spawn(wait_for(signal, Clock::now() + 20ms, wakes));

  EXPECT_TRUE(eventually(loop, [&] { return !wakes.empty(); }));
  EXPECT_EQ(wakes, std::vector<Wake>{Wake::expired});

  loop.spawn(wait_for(signal, never, wakes));
  signal.raise();
  EXPECT_TRUE(eventually(loop, [&] { return wakes.size() == 2; }));
}

TEST(Signal, MayBeRaisedForAWaiterThatIsDropped) {
  Loop loop;
  Signal signal(loop);
  std::vector<Wake> wakes;
  {
    auto task = wait_for(signal, Clock::now() + 1ms, wakes);
    signal.raise();
  }
  loop.run_until([] { return false; }, Clock::now() + 80ms);
  EXPECT_TRUE(wakes.empty());
}

// ---- watches -----------------------------------------------------------------------------------

Task<void> wait_readable(Watch& watch, Instant deadline, std::vector<Wake>& wakes) {
  auto wake = co_await watch.until_readable(deadline);
  wakes.push_back(wake);
}

std::string drain(Watch& watch) {
  char bytes[100];
  const ssize_t count = read(watch.fd(), bytes, sizeof bytes);
  watch.mark_drained();
  return {bytes, static_cast<std::size_t>(std::max<ssize_t>(count, 0))};
}

TEST(Watch, ReportsReadability) {
  Loop loop;
  Pair pair;
  Watch watch(loop, pair.ours());
  std::vector<Wake> wakes;
  loop.spawn(wait_readable(watch, never, wakes));
  EXPECT_TRUE(wakes.empty());

  for (std::size_t i = 1; i <= 3; ++i) {
    pair.send("x");
    ASSERT_TRUE(eventually(loop, [&] { return wakes.size() == i; }));
    EXPECT_TRUE(watch.readable());
    EXPECT_EQ(drain(watch), "x");
    EXPECT_FALSE(watch.readable());
    loop.spawn(wait_readable(watch, never, wakes));
  }
  loop.drop_spawned();
}

TEST(Watch, ReportsAnExpiredDeadline) {
  Loop loop;
  Pair pair;
  Watch watch(loop, pair.ours());
  std::vector<Wake> wakes;
  loop.spawn(wait_readable(watch, Clock::now() + 20ms, wakes));

  EXPECT_TRUE(eventually(loop, [&] { return !wakes.empty(); }));

  EXPECT_EQ(wakes, std::vector<Wake>{Wake::expired});
}

TEST(Watch, CanBeInterruptedBeforeAndDuringAWait) {
  Loop loop;
  Pair pair;
  Watch watch(loop, pair.ours());
  std::vector<Wake> wakes;
  watch.interrupt();
  loop.spawn(wait_readable(watch, never, wakes));
  EXPECT_EQ(wakes, std::vector<Wake>{Wake::interrupted});

  loop.spawn(wait_readable(watch, never, wakes));
  watch.interrupt();
  EXPECT_EQ(wakes.size(), 1u);
  EXPECT_TRUE(eventually(loop, [&] { return wakes.size() == 2; }));
  EXPECT_EQ(wakes.back(), Wake::interrupted);

  loop.spawn(wait_readable(watch, Clock::now() + 20ms, wakes));
  EXPECT_TRUE(eventually(loop, [&] { return wakes.size() == 3; }));
  EXPECT_EQ(wakes.back(), Wake::expired);
}

TEST(Watch, ForgetsAWaitThatIsDropped) {
  Loop loop;
  Pair pair;
  Watch watch(loop, pair.ours());
  std::vector<Wake> wakes;
  {
    auto task = wait_readable(watch, Clock::now() + 1ms, wakes);
    watch.interrupt();
  }
  pair.send("x");
  loop.run_until([] { return false; }, Clock::now() + 80ms);
  EXPECT_TRUE(wakes.empty());
}

TEST(Watch, ReportsThatThePeerClosed) {
  Loop loop;
  Pair pair;
  Watch watch(loop, pair.ours());
  std::string woken;
  RecordingWaiter waiter(woken, 'h');
  watch.on_hangup(&waiter);
  pair.send("last");
  ASSERT_TRUE(eventually(loop, [&] { return watch.readable(); }));
  EXPECT_EQ(drain(watch), "last");
  EXPECT_EQ(woken, "");

  pair.close_other();

  EXPECT_TRUE(eventually(loop, [&] { return woken == "h"; }));
  EXPECT_TRUE(watch.peer_closed());
  EXPECT_TRUE(watch.readable());  // the end of file
  EXPECT_EQ(drain(watch), "");
  EXPECT_TRUE(watch.readable());
}

TEST(Watch, DistinguishesAHalfCloseFromABrokenConnection) {
  Loop loop;
  Pair pair;
  Watch watch(loop, pair.ours());
  shutdown(pair.fds[1], SHUT_WR);
  ASSERT_TRUE(eventually(loop, [&] { return watch.peer_closed(); }));
  EXPECT_FALSE(watch.broken());

  pair.close_other();
  EXPECT_TRUE(eventually(loop, [&] { return watch.broken(); }));
}

TEST(Watch, IsNotTakenForItsSuccessorOnTheSameDescriptor) {
  Loop loop;
  std::string woken;
  RecordingWaiter old_waiter(woken, 'o');
  RecordingWaiter new_waiter(woken, 'n');
  auto old_watch = std::make_unique<Watch>();
  int number = -1;
  {
    Pair pair;
    number = pair.ours();
    old_watch->open(loop, number);
    old_watch->on_readable(&old_waiter);
    pair.send("x");
    old_watch->release_before_close();
  }
  Pair pair;
  ASSERT_EQ(pair.ours(), number);
  Watch watch(loop, pair.ours());
  watch.on_readable(&new_waiter);
  loop.run_until([] { return false; }, Clock::now() + 10ms);
  EXPECT_EQ(woken, "");

  pair.send("y");
  EXPECT_TRUE(eventually(loop, [&] { return woken == "n"; }));
}

TEST(Watch, MayBeDestroyedByTheWaiterItWakes) {
  for (const bool by_hangup : {true, false}) {
    Loop loop;
    Pair pair;
    auto watch = std::make_unique<Watch>(loop, pair.ours());
    std::string woken;
    RecordingWaiter waiter(woken, 'h');
    waiter.on_wake = [&] { watch.reset(); };
    by_hangup ? watch->on_hangup(&waiter) : watch->on_readable(&waiter);

    pair.send("x");
    pair.close_other();

    EXPECT_TRUE(eventually(loop, [&] { return watch == nullptr; }));
    EXPECT_EQ(woken, "h");
  }
}

TEST(Watch, WaitsForRoomToWrite) {
  Loop loop;
  Pair pair;
  Watch watch(loop, pair.ours());
  const std::string block(4096, 'x');
  while (write(watch.fd(), block.data(), block.size()) > 0) {
  }
  watch.mark_not_writable();
  bool written = false;
  const auto write_when_possible = [&]() -> Task<void> {
    auto wake = co_await watch.until_writable();
    written = wake == Wake::ready;
  };
  loop.spawn(write_when_possible());
  loop.run_until([] { return false; }, Clock::now() + 10ms);
  EXPECT_FALSE(written);

  char sink[65536];
  while (read(pair.fds[1], sink, sizeof sink) > 0) {
  }
  EXPECT_TRUE(eventually(loop, [&] { return written; }));
}

// ---- a task, or the end of a connection --------------------------------------------------------

Task<int> five_when(Signal& signal, std::string& notes) {
  const Note note{notes, 't'};
  co_await signal.wait();
  co_return 5;
}

Task<void> race(Signal& signal, Watch& watch, bool half_close_counts, std::string& notes) {
  auto task = five_when(signal, notes);
  if (!task.ready()) co_await UntilDoneOrHangup(task, watch, half_close_counts);
  notes += task.ready() ? std::to_string(task.take()) : "gone";
}

TEST(UntilDoneOrHangup, EndsWithTheTask) {
  Loop loop;
  Pair pair;
  Watch watch(loop, pair.ours());
  Signal signal(loop);
  std::string notes;
  loop.spawn(race(signal, watch, true, notes));
  signal.raise();
  EXPECT_TRUE(eventually(loop, [&] { return notes == "t5"; }));

  pair.close_other();  // has no effect any more
  loop.run_until([] { return false; }, Clock::now() + 10ms);
  EXPECT_EQ(notes, "t5");
}

TEST(UntilDoneOrHangup, EndsWithTheConnectionAndTheTaskIsDropped) {
  Loop loop;
  Pair pair;
  Watch watch(loop, pair.ours());
  Signal signal(loop);
  std::string notes;
  loop.spawn(race(signal, watch, true, notes));

  pair.close_other();

  EXPECT_TRUE(eventually(loop, [&] { return notes == "gonet"; }));
}

TEST(UntilDoneOrHangup, EndsAtOnceWhenThePeerHasGoneBefore) {
  Loop loop;
  Pair pair;
  Watch watch(loop, pair.ours());
  pair.close_other();
  ASSERT_TRUE(eventually(loop, [&] { return watch.broken(); }));
  Signal signal(loop);
  std::string notes;

  loop.spawn(race(signal, watch, false, notes));

  EXPECT_EQ(notes, "gonet");
}

TEST(UntilDoneOrHangup, TreatsAHalfCloseAsConfigured) {
  Loop loop;
  Pair pair;
  Watch watch(loop, pair.ours());
  Signal signal(loop);
  std::string notes;
  loop.spawn(race(signal, watch, false, notes));
  shutdown(pair.fds[1], SHUT_WR);
  ASSERT_TRUE(eventually(loop, [&] { return watch.peer_closed(); }));
  EXPECT_EQ(notes, "");
  signal.raise();
  EXPECT_TRUE(eventually(loop, [&] { return notes == "t5"; }));

  loop.spawn(race(signal, watch, true, notes));
  EXPECT_EQ(notes, "t5gonet");
}

TEST(UntilDoneOrHangup, IsForgottenWhenItsCoroutineIsDropped) {
  Loop loop;
  Pair pair;
  Watch watch(loop, pair.ours());
  Signal signal(loop);
  std::string notes;
  {
    auto racing = race(signal, watch, true, notes);
    EXPECT_FALSE(racing.ready());
  }
  EXPECT_EQ(notes, "t");
  signal.raise();
  pair.close_other();
  loop.run_until([] { return false; }, Clock::now() + 10ms);
  EXPECT_EQ(notes, "t");
}

}  // namespace
}  // namespace evenkeel
