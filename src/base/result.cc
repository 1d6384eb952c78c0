#include "evenkeel/base/result.h"

namespace evenkeel {

const char* to_string(Fault fault) {
  switch (fault) {
    case Fault::bad_request: return "bad_request";
    case Fault::uri_too_long: return "uri_too_long";
    case Fault::header_too_large: return "header_too_large";
    case Fault::body_too_large: return "body_too_large";
    case Fault::header_timeout: return "header_timeout";
    case Fault::body_timeout: return "body_timeout";
    case Fault::expectation_failed: return "expectation_failed";
    case Fault::method_not_allowed: return "method_not_allowed";
    case Fault::not_implemented: return "not_implemented";
    case Fault::version_not_supported: return "version_not_supported";
    case Fault::no_route: return "no_route";
    case Fault::model_not_found: return "model_not_found";
    case Fault::session_lost: return "session_lost";
    case Fault::no_backend: return "no_backend";
    case Fault::queue_full: return "queue_full";
    case Fault::queue_timeout: return "queue_timeout";
    case Fault::connect_failed: return "connect_failed";
    case Fault::connect_timeout: return "connect_timeout";
    case Fault::tls_failed: return "tls_failed";
    case Fault::first_byte_timeout: return "first_byte_timeout";
    case Fault::idle_timeout: return "idle_timeout";
    case Fault::deadline_exceeded: return "deadline_exceeded";
    case Fault::backend_closed: return "backend_closed";
    case Fault::backend_protocol: return "backend_protocol";
    case Fault::stream_error: return "stream_error";
    case Fault::server_error: return "server_error";
    case Fault::overloaded: return "overloaded";
    case Fault::flood: return "flood";
    case Fault::client_gone: return "client_gone";
    case Fault::write_timeout: return "write_timeout";
    case Fault::draining: return "draining";
    case Fault::out_of_memory: return "out_of_memory";
    case Fault::internal: return "internal";
  }
  return "internal";
}

}  // namespace evenkeel
