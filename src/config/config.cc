#include "evenkeel/config/config.h"

#include <algorithm>

#include "evenkeel/config/picker_list.h"
#include "evenkeel/inference/engine.h"

namespace evenkeel {
namespace {

// The table of a pool that does not name its sessions: 180 KB.
constexpr std::uint32_t default_agent_sessions = 10'000;

}  // namespace

const std::vector<std::string>& engine_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> list;
    for (const Engine* engine : engines()) list.emplace_back(engine->name);
    list.emplace_back(undetected_engine);
    return list;
  }();
  return names;
}

const std::vector<std::string>& picker_names() {
#define EVENKEEL_PICKER_NAME(name, factory) name,
  static const std::vector<std::string> names{EVENKEEL_PICKERS(EVENKEEL_PICKER_NAME)};
#undef EVENKEEL_PICKER_NAME
  return names;
}

milliseconds default_keep_alive_idle(std::string_view engine) {
  return engine_named(engine).keep_alive_idle;
}

milliseconds default_health_timeout(std::string_view engine) {
  if (engine != undetected_engine) return engine_named(engine).health.timeout;
  const auto timeout_of = [](const Engine* each) { return each->health.timeout; };
  return std::ranges::max(engines(), {}, timeout_of)->health.timeout;
}

bool reuses_answers(const PoolConfig& pool) {
  return pool.cache || pool.coalesce != CoalesceRule::off;
}

bool inspects(const PoolConfig& pool) {
  const auto is_of_body = [](const std::string& source) {
    return source == "session_id" || source == "sequence_id" || source == "response-id";
  };
  const bool pins_by_body =
      pool.affinity && std::any_of(pool.affinity->by.begin(), pool.affinity->by.end(), is_of_body);
  const bool picks_by_body = pool.picker.name == "prefix-affinity" || pool.picker.has_scheduler();
  return pool.inspect || pool.metered || renames(pool) || !pool.body.empty() || pins_by_body ||
         picks_by_body || reuses_answers(pool) || pool.batching;
}

std::optional<AffinityConfig> affinity_of(const PoolConfig& pool) {
  if (pool.affinity && pool.affinity->mode == AffinityMode::off) return std::nullopt;
  // A hash binds requests itself.
  if (pool.affinity || !inspects(pool) || pool.picker.name == "consistent-hash")
    return pool.affinity;
  return AffinityConfig{.by = {"agent-session"},
                        .mode = AffinityMode::soft,
                        .ttl = AffinityConfig{}.ttl,
                        .max_sessions = default_agent_sessions};
}

BackendProtocol default_protocol(const PoolConfig& pool) {
  const bool secure =
      pool.tls || std::any_of(pool.backends.begin(), pool.backends.end(),
                              [](const BackendConfig& backend) { return backend.address.secure; });
  return secure ? BackendProtocol::automatic : BackendProtocol::http1;
}

}  // namespace evenkeel
