// Which values the labels `reason` and `side` have.
#pragma once

#include <string_view>

#include "evenkeel/base/fault_table.h"

namespace evenkeel {

/// Faults after which another attempt may follow: exported with 0 before they happen.
inline constexpr Fault attempt_faults[] = {Fault::connect_failed,   Fault::connect_timeout,
                                           Fault::tls_failed,       Fault::first_byte_timeout,
                                           Fault::idle_timeout,     Fault::backend_closed,
                                           Fault::backend_protocol, Fault::stream_error};

inline bool is_attempt_fault(Fault fault) {
  for (const Fault one : attempt_faults) {
    if (one == fault) return true;
  }
  return false;
}

/// True if the fault is that of an answer that another attempt's replaced.
inline bool is_of_replaced_answer(Fault fault) {
  return fault == Fault::server_error || fault == Fault::overloaded;
}

/// The side that a failed request is counted for: "client", "proxy" or "backend".
inline std::string_view side_of(Fault fault) { return entry_of(fault).side; }

template <class Each>
void each_fault(Each each) {
  for (int fault = 0; fault < fault_count; ++fault) each(static_cast<Fault>(fault));
}

}  // namespace evenkeel
