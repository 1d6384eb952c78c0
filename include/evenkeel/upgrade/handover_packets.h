// How one process passes its listening sockets to the next: packets on a Unix socket.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "evenkeel/base/result.h"
#include "evenkeel/config/address.h"

namespace evenkeel {

/// The sockets of one listener. Does not own them.
struct HandedOverListener {
  std::string name;
  Address address;  ///< as configured; its port may be 0
  std::vector<int> fds;
};

/// The environment variable with the number of the new process's end of the channel.
constexpr const char* handover_variable = "EVENKEEL_HANDOVER_FD";
/// What the new process sends when it accepts connections.
constexpr std::string_view handover_ready = "ready";

/// Queues all listeners in a channel (SOCK_SEQPACKET), whether or not it is being read yet. Thread:
/// any.
Result<Done> send_listeners(int channel, const std::vector<HandedOverListener>& listeners);

/// Reads what `send_listeners` has queued; does not wait. The caller owns the descriptors. Errors:
/// the other end is of a version with another format, or has sent less. Thread: any.
Result<std::vector<HandedOverListener>> receive_listeners(int channel);

/// Queues bytes of any number, in a file of its own, after the listeners: the state, and later the
/// reports of both processes. Thread: any.
Result<Done> send_state(int channel, const std::string& state);

/// Reads what one `send_state` has queued; does not wait. Null: there is none. Empty: it cannot be
/// read, for example because this process has no descriptor left. REQUIRES: after
/// `receive_listeners`. Thread: any.
std::optional<std::string> receive_state(int channel);

/// True if the other end is closed: its process has ended, or is of a version that sends no
/// reports.
bool is_abandoned(int channel);

}  // namespace evenkeel
