// Which values the labels `reason` and `side` have.
#pragma once

#include <string_view>

#include "evenkeel/base/result.h"

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
inline std::string_view side_of(Fault fault) {
  switch (fault) {
    case Fault::bad_request:
    case Fault::uri_too_long:
    case Fault::header_too_large:
    case Fault::body_too_large:
    case Fault::header_timeout:
    case Fault::body_timeout:
    case Fault::expectation_failed:
    case Fault::method_not_allowed:
    case Fault::not_implemented:
    case Fault::version_not_supported:
    case Fault::no_route:
    case Fault::model_not_found:
    case Fault::client_gone:
    case Fault::flood:
    case Fault::write_timeout: return "client";
    case Fault::queue_full:
    case Fault::queue_timeout:
    case Fault::overloaded:
    case Fault::draining:
    case Fault::out_of_memory:
    case Fault::internal: return "proxy";
    case Fault::session_lost:
    case Fault::no_backend:
    case Fault::connect_failed:
    case Fault::connect_timeout:
    case Fault::tls_failed:
    case Fault::first_byte_timeout:
    case Fault::idle_timeout:
    case Fault::deadline_exceeded:
    case Fault::backend_closed:
    case Fault::backend_protocol:
    case Fault::stream_error:
    case Fault::server_error: return "backend";
  }
  return "proxy";
}

template <class Each>
void each_fault(Each each) {
  for (int fault = 0; fault < fault_count; ++fault) each(static_cast<Fault>(fault));
}

}  // namespace evenkeel
