#include "evenkeel/server/environment.h"

#include "evenkeel/net/tls.h"

namespace evenkeel {

Environment process_environment() {
  Environment environment = Environment::of_process();
  environment.listener_tls_problems = &TlsServer::check;
  environment.pool_tls_problems = &TlsClient::check;
  return environment;
}

}  // namespace evenkeel
