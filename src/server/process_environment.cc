#include "evenkeel/server/process_environment.h"

#include <utility>

#include "evenkeel/base/memory_usage.h"
#include "evenkeel/net/tls.h"
#include "evenkeel/net/token_issuers.h"
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
  environment.file_error = [other = std::move(environment.file_error)](FileUse use,
                                                                       const std::string& path) {
    return use == FileUse::key_set ? TokenIssuers::problem_of(path) : other(use, path);
  };
  environment.memory_limit = [](const MemoryLimit& setting) {
    return memory_limit(setting, MemoryUsage());
  };
  return environment;
}

}  // namespace evenkeel
