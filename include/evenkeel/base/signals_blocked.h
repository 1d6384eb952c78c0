// Starting a thread that gets no signals.
#pragma once

#include <pthread.h>
#include <signal.h>

namespace evenkeel {

/// Blocks all signals in the current thread while it lives. A thread that starts meanwhile inherits
/// that for good: signals go to the control thread, and a write that fails there returns EPIPE or
/// EFBIG without SIGPIPE or SIGXFSZ.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_;
};

}  // namespace evenkeel
