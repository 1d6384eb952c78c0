#include "evenkeel/server/process_environment.h"

#include "evenkeel/base/memory_usage.h"
#include "evenkeel/net/tls.h"
#include "server/key_file.h"
#include "server/memory_guard.h"

namespace evenkeel {

Environment process_environment() {
  Environment environment = Environment::from_process();
  environment.listener_tls_problems = &TlsServerContext::check;
  environment.pool_tls_problems = &TlsClientContext::check;
  environment.key_file_problems = [](const std::string& path,
                                     const std::vector<TenantConfig>& tenants) {
    return read_api_keys(tenants, path).problems;
  };
  environment.memory_limit = [](const MemoryLimit& setting) {
    return memory_limit(setting, MemoryUsage());
  };
  return environment;
}

}  // namespace evenkeel
