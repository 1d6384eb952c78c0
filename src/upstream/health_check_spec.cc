#include "upstream/health_check_spec.h"

#include <algorithm>

namespace evenkeel {
namespace {

/// Minimum timeout of a token, which waits in the engine's queue like any request.
constexpr Duration min_token_timeout = std::chrono::seconds(10);

}  // namespace

HealthCheckKind resolved_check_kind(const HealthCheckSpec& spec) {
  const HealthConfig& config = spec.config;
  const EngineHealth& health = engine_of_server(spec.engine, spec.kserve).health;
  const bool nothing_to_request = config.path.empty() && health.path.empty() && spec.models.empty();
  const HealthCheckKind http = nothing_to_request ? HealthCheckKind::tcp : HealthCheckKind::http;
  if (config.check == HealthCheckKind::http) return http;
  if (config.check != HealthCheckKind::automatic) return config.check;
  if (!config.path.empty()) return http;
  if (!config.service.empty()) return HealthCheckKind::grpc;
  if (spec.engine == undetected_engine) return HealthCheckKind::off;  // not known yet
  if (health.serves_kserve_grpc && spec.protocol == BackendProtocol::http2) {
    return HealthCheckKind::grpc;
  }
  if (health.check_by_default) return http;
  const bool models = config.model != ModelCheck::off && !spec.models.empty();
  if (models) return http;
  return spec.engine_is_auto ? HealthCheckKind::tcp : HealthCheckKind::off;
}

Duration token_check_timeout(const HealthCheckSpec& spec) {
  return std::max<Duration>(spec.config.timeout, min_token_timeout);
}

ServerAccess health_check_access(ServerAccess access, const HealthCheckSpec& spec,
                                 HealthCheckKind kind) {
  if (spec.config.port != 0) access.set_port(spec.config.port);
  LinkPoolOptions& links = access.links;
  const Duration patience = token_check_timeout(spec);
  links.link = {.first_byte_timeout = patience, .idle_timeout = patience};
  links.connector.connect_timeout = spec.config.timeout;
  links.keep_alive.max_idle = 1;
  if (kind == HealthCheckKind::grpc) {
    links.protocol = BackendProtocol::http2;
    links.connector.alpn = AlpnOffer::http2;
  } else if (links.protocol == BackendProtocol::automatic && links.connector.tls == nullptr) {
    links.protocol = BackendProtocol::http1;
  }
  return access;
}

}  // namespace evenkeel
