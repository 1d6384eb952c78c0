// The process that this one replaces: a binary upgrade, seen from the new process.
#pragma once

#include <sys/types.h>

#include <string>

#include "evenkeel/base/owned_fd.h"
#include "evenkeel/base/result.h"
#include "evenkeel/upgrade/inherited_sockets.h"

namespace evenkeel {

/// The channel to the process that started this one in its place, if one did
/// (EVENKEEL_HANDOVER_FD).
///
/// Thread: the control thread.
class Predecessor {
 public:
  /// `variable` reads the environment.
  explicit Predecessor(const InheritedSockets::Variable& variable);

  bool present() const { return channel() >= 0; }
  /// Adds its listening sockets. REQUIRES: present(). Errors: the two versions do not understand
  /// each other.
  Result<Done> receive_sockets(InheritedSockets& sockets) const;
  /// Receives what that process has learned and operators have set; bytes (saved_state.h).
  /// REQUIRES: after `receive_sockets`.
  std::string receive_state() const;
  /// This process accepts connections: the other one drains from now on. REQUIRES: present().
  void report_ready() const;
  /// The channel for reports to and from that process. REQUIRES: present().
  int channel() const { return channel_.get(); }
  /// True if the process has not ended.
  bool runs() const;
  /// Sends SIGTERM to the process if it is still draining: this one is being stopped.
  void stop() const;

 private:
  pid_t pid_ = 0;
  OwnedFd channel_;
};

}  // namespace evenkeel
