#include "evenkeel/server/process_environment.h"

#include "evenkeel/net/tls.h"

namespace evenkeel {

Environment process_environment() {
  Environment environment = Environment::from_process();
  environment.listener_tls_problems = &TlsServerContext::check;
  environment.pool_tls_problems = &TlsClientContext::check;
  return environment;
}

}  // namespace evenkeel
