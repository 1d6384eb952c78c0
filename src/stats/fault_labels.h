// Which values the label `reason` has.
#pragma once

#include "evenkeel/base/result.h"

namespace evenkeel {

/// Faults after which another attempt may follow: exported with 0 before they happen.
inline constexpr Fault attempt_faults[] = {Fault::connect_failed,  Fault::connect_timeout,
                                           Fault::tls_failed,      Fault::first_byte_timeout,
                                           Fault::idle_timeout,    Fault::backend_closed,
                                           Fault::backend_protocol};

inline bool is_attempt_fault(Fault fault) {
  for (const Fault one : attempt_faults) {
    if (one == fault) return true;
  }
  return false;
}

/// Of an answer that was replaced by another attempt's.
inline bool is_of_replaced_answer(Fault fault) {
  return fault == Fault::server_error || fault == Fault::overloaded;
}

template <class Each>
void each_fault(Each each) {
  for (int fault = 0; fault < fault_count; ++fault) each(static_cast<Fault>(fault));
}

}  // namespace evenkeel
