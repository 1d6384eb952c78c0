#include "server/admin_documents.h"

#include <array>
#include <ctime>
#include <optional>
#include <string_view>

#include "evenkeel/base/json.h"
#include "server/backend_state.h"

namespace evenkeel {
namespace {

std::string rfc3339(std::chrono::system_clock::time_point time) {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(time);
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  std::array<char, 32> text;
  const std::size_t size = std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return {text.data(), size};
}

}  // namespace

std::string status_document(const Overview& overview) {
  std::uint64_t connections = 0;
  for (const auto& worker : *overview.workers) connections += worker->connections();
  std::int64_t in_flight = 0;
  const auto names = overview.sheets->names().view();
  for (std::uint32_t pool = 0; pool < names.pools.size(); ++pool) {
    in_flight += overview.sheets->in_flight(pool);
  }
  JsonWriter json;
  json.begin_object()
      .field("version", overview.version)
      .field("uptime_seconds", seconds_of(Clock::now() - overview.started))
      .key("config")
      .begin_object()
      .field("file", overview.config_file)
      .field("hash", overview.config_hash)
      .field("loaded_at", rfc3339(overview.loaded_at))
      .field("last_reload_ok", true)
      .key("errors")
      .begin_list()
      .end_list()
      .end_object()
      .field("workers", std::uint64_t{overview.workers->size()})
      .field("connections", connections)
      .field("requests_in_flight", in_flight)
      .field("draining", overview.draining)
      .end_object();
  return json.take();
}

std::string pools_document(const Overview& overview) {
  const Instant now = Clock::now();
  JsonWriter json;
  json.begin_list();
  for (const Fleet::Member& pool : overview.fleet->pools()) {
    const PoolState& state = *pool.state;
    json.begin_object()
        .field("name", state.spec().name)
        .field("picker", state.spec().picker)
        .field("waiting", state.queue().waiting)
        .field("in_flight", state.in_flight())
        .key("backends")
        .begin_object()
        .field("up", std::uint64_t{state.standing(now)})
        .field("total", std::uint64_t{state.backends().size()})
        .end_object()
        .field("saturation", state.saturation_ratio())
        .end_object();
  }
  json.end_list();
  return json.take();
}

std::string backends_document(const Overview& overview) {
  const Instant now = Clock::now();
  const auto seconds = [](const std::optional<Duration>& duration) -> std::optional<double> {
    if (!duration) return std::nullopt;
    return seconds_of(*duration);
  };
  JsonWriter json;
  json.begin_list();
  for (std::size_t i = 0; i < overview.fleet->pools().size(); ++i) {
    const PoolState& pool = *overview.fleet->pools()[i].state;
    const PoolConfig& config = overview.config->pools[i];
    for (const BackendPtr& backend : pool.backends()) {
      const BackendSpec& spec = backend->spec();
      const Load& load = backend->load();
      json.begin_object()
          .field("id", spec.id)
          .field("pool", pool.spec().name)
          .field("address", spec.address)
          .field("engine", config.engine)
          .key("models")
          .begin_list();
      for (const std::string& model : config.models) json.value(model);
      json.end_list().field("zone", spec.zone).key("labels").begin_object();
      for (const auto& [name, value] : spec.labels) json.field(name, value);
      json.end_object()
          .field("weight", spec.weight)
          .field("standby", false)
          .field("state", state_of(*backend, now))
          .key("since")
          .null()
          .key("reason");
      if (load.avoided(now)) {
        json.value(word_of(Fault::connect_failed));
      } else {
        json.null();
      }
      json.field("in_flight", load.in_flight())
          .key("waiting")
          .null()
          .field("picks_total", load.picks_total())
          .field("errors_total", load.errors_total())
          .key("latency")
          .begin_object()
          .field("ttft_seconds", seconds(load.mean_first_byte()))
          .field("e2e_seconds", seconds(load.mean_total()))
          .end_object()
          .key("polled")
          .begin_object();
      for (const char* signal :
           {"age_seconds", "running", "waiting", "kv_cache_ratio", "gpu_utilization_ratio",
            "gpu_memory_used_bytes", "gpu_memory_total_bytes"}) {
        json.key(signal).null();
      }
      json.end_object().end_object();
    }
  }
  json.end_list();
  return json.take();
}

}  // namespace evenkeel
