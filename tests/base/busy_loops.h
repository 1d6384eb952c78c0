// Two loops that wake each other in turn, so that each waits for microseconds only; and how often
// they look for events without waiting. For one source file of a test program: it takes the place
// of the C library's epoll_wait.
#pragma once

#include <sys/epoll.h>

#include <atomic>
#include <chrono>

#include "evenkeel/base/loop.h"

namespace evenkeel {

inline thread_local bool counts_looks = false;
inline std::atomic<unsigned> looks = 0;  // of the threads that count

/// Both loops run on threads of their own.
class BusyLoops {
 public:
  BusyLoops(Loop& one, Loop& other) : one_(one), other_(other) {
    for (Loop* loop : {&one_, &other_}) loop->post([] { counts_looks = true; });
    take_turns(1);
  }

  void take_turns(unsigned turns) {
    left_ = turns;
    done_.clear();
    next_turn();
    done_.wait(false);
  }
  /// Looks in so many turns.
  unsigned looks_in(unsigned turns) {
    looks = 0;
    take_turns(turns);
    return looks;
  }
  /// They look for events within a time that only a failing test reaches.
  bool look() {
    const Instant give_up = Clock::now() + std::chrono::seconds(20);
    while (Clock::now() < give_up) {
      if (looks_in(2 * BusyPoll::min_short_sleeps) > 0) return true;
    }
    return false;
  }

 private:
  void next_turn() {
    one_.post([this] {
      other_.post([this] {
        if (--left_ > 0) return next_turn();
        done_.test_and_set();
        done_.notify_one();
      });
    });
  }

  Loop& one_;
  Loop& other_;
  unsigned left_ = 0;
  std::atomic_flag done_;
};

}  // namespace evenkeel

extern "C" int epoll_wait(int fd, epoll_event* events, int max_events, int timeout) {
  if (timeout == 0 && evenkeel::counts_looks) ++evenkeel::looks;
  return epoll_pwait(fd, events, max_events, timeout, nullptr);
}
