#include "admin.h"

#include <algorithm>
#include <string_view>

#include "evenkeel/base/json.h"

namespace evenkeel {
namespace {

constexpr Duration longest_silence = std::chrono::seconds(5);  // of a loop that is alive
constexpr std::string_view json_type = "application/json";
constexpr std::string_view text_type = "text/plain; charset=utf-8";

Response answer(int status, std::string_view type, std::string body) {
  Response response{.status = status};
  response.fields.add("content-type", type);
  response.fields.add("cache-control", "no-store");
  response.body = make_body(std::move(body));
  return response;
}

Response json_answer(JsonWriter& json, int status = 200) {
  return answer(status, json_type, json.take() + "\n");
}

Response failure(int status, std::string_view message) {
  JsonWriter json;
  json.begin_object().field("error", message).end_object();
  return json_answer(json, status);
}

/// A name other than localhost in Host may be a page that had its own name resolve to loopback (DNS
/// rebinding); an address cannot be.
bool local_or_address(std::string_view authority) {
  const auto bracket = authority.find(']');
  if (authority.starts_with('[') && bracket != std::string_view::npos) return true;
  const std::string_view host = authority.substr(0, authority.find(':'));
  if (host.empty() || same_name(host, "localhost")) return true;
  return std::all_of(host.begin(), host.end(),
                     [](char c) { return (c >= '0' && c <= '9') || c == '.'; });
}

bool foreign(const Request& request) {
  if (!local_or_address(request.authority)) return true;
  const auto origin = request.fields.value("origin");
  if (!origin) return false;
  const auto scheme_end = origin->find("://");
  return scheme_end == std::string_view::npos || !local_or_address(origin->substr(scheme_end + 3));
}

std::string rfc3339(std::chrono::system_clock::time_point time) {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(time);
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  std::array<char, 32> text;
  const std::size_t size = std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return {text.data(), size};
}

std::string_view state_of(const Backend& backend, Instant now) {
  return backend.load().avoided(now) ? "down" : "up";
}

/// Tells whether every loop has turned: counts answers to a knock, on the control thread.
struct Knock {
  explicit Knock(Loop& loop) : answered(loop) {}
  Signal answered;
  std::size_t left = 0;
};

class PageSource final : public Source {
 public:
  explicit PageSource(const Overview& overview) : overview_(overview) {}

  Readings read() override {
    Readings readings;
    const Instant now = Clock::now();
    for (const Fleet::Member& pool : overview_.fleet->pools()) {
      const std::string& name = pool.state->spec().name;
      for (const BackendPtr& backend : pool.state->backends()) {
        const Load& load = backend->load();
        BackendReading reading{.pool = name,
                               .backend = backend->id(),
                               .state = state_of(*backend, now),
                               .up = !load.avoided(now),
                               .in_flight = load.in_flight(),
                               .picks = load.picks_total()};
        for (int fault = 0; fault < fault_count; ++fault) {
          reading.errors[static_cast<std::size_t>(fault)] =
              load.errors_total(static_cast<Fault>(fault));
        }
        const std::uint32_t index = overview_.sheets->names().backend(name, backend->id());
        reading.totals = overview_.sheets->backend_totals(index);
        readings.backends.push_back(std::move(reading));
      }
    }
    for (const auto& worker : *overview_.workers) {
      readings.loop_lag = std::max(readings.loop_lag, worker->loop().take_longest_turn());
    }
    if (overview_.access_log != nullptr) {
      readings.access_log_dropped = overview_.access_log->dropped();
    }
    readings.config_loaded = overview_.loaded_at;
    return readings;
  }

 private:
  const Overview& overview_;
};

}  // namespace

Task<Result<Response>> AdminHandler::handle(Request& request) {
  const auto question = request.path.find('?');
  const std::string_view path = request.path.substr(0, question);
  const std::string_view query =
      question == std::string_view::npos ? std::string_view() : request.path.substr(question + 1);
  const bool api = path.starts_with("/api/");

  if (request.method != "GET" && request.method != "HEAD") {
    Response refused = failure(405, "this endpoint answers GET and HEAD");
    refused.fields.add("allow", "GET, HEAD");
    return Result<Response>(std::move(refused));
  }
  if (api && foreign(request)) {
    return Result<Response>(
        failure(403, "ask by address or as localhost: a foreign Host or Origin is refused"));
  }
  if (path == "/healthz") return healthz();
  if (path == "/readyz") return Result<Response>(readyz(query));
  if (path == "/metrics") return Result<Response>(metrics());
  if (path == "/api/v1/status") return Result<Response>(status());
  if (path == "/api/v1/pools") return Result<Response>(pools());
  if (path == "/api/v1/backends") return Result<Response>(backends());
  return Result<Response>(
      failure(404,
              "no such endpoint; there are /healthz /readyz /metrics /api/v1/status /api/v1/pools "
              "/api/v1/backends"));
}

Task<Result<Response>> AdminHandler::healthz() {
  const auto knock = std::make_shared<Knock>(loop_);
  knock->left = overview_.workers->size();
  for (const auto& worker : *overview_.workers) {
    worker->loop().post([this, knock] {
      loop_.post([knock] {
        if (--knock->left == 0) knock->answered.raise();
      });
    });
  }
  auto wake = co_await knock->answered.wait(loop_.now() + longest_silence);
  if (wake == Wake::expired) co_return answer(503, text_type, "an event loop does not turn\n");
  co_return answer(200, text_type, "ok\n");
}

Response AdminHandler::readyz(std::string_view query) const {
  const bool ready = overview_.ready && !overview_.draining;
  std::string text = ready ? "ready\n" : overview_.draining ? "draining\n" : "starting\n";
  if (query == "verbose" || query.starts_with("verbose=")) {
    const Instant now = Clock::now();
    for (const Fleet::Member& pool : overview_.fleet->pools()) {
      text += "pool " + pool.state->spec().name + ": " + std::to_string(pool.state->standing(now)) +
              " of " + std::to_string(pool.state->backends().size()) + " backends up\n";
    }
  }
  return answer(ready ? 200 : 503, text_type, std::move(text));
}

Response AdminHandler::metrics() const {
  PageSource source(overview_);
  return answer(200, metrics_content_type,
                render_metrics(*overview_.sheets, source, overview_.version));
}

Response AdminHandler::status() const {
  std::uint64_t connections = 0;
  for (const auto& worker : *overview_.workers) connections += worker->connections();
  std::int64_t in_flight = 0;
  const auto names = overview_.sheets->names().view();
  for (std::uint32_t pool = 0; pool < names.pools.size(); ++pool) {
    in_flight += overview_.sheets->in_flight(pool);
  }
  JsonWriter json;
  json.begin_object()
      .field("version", overview_.version)
      .field("uptime_seconds", seconds_of(Clock::now() - overview_.started))
      .key("config")
      .begin_object()
      .field("file", overview_.config_file)
      .field("hash", overview_.config_hash)
      .field("loaded_at", rfc3339(overview_.loaded_at))
      .field("last_reload_ok", true)
      .key("errors")
      .begin_list()
      .end_list()
      .end_object()
      .field("workers", std::uint64_t{overview_.workers->size()})
      .field("connections", connections)
      .field("requests_in_flight", in_flight)
      .field("draining", overview_.draining)
      .end_object();
  return json_answer(json);
}

Response AdminHandler::pools() const {
  const Instant now = Clock::now();
  JsonWriter json;
  json.begin_list();
  for (const Fleet::Member& pool : overview_.fleet->pools()) {
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
  return json_answer(json);
}

Response AdminHandler::backends() const {
  const Instant now = Clock::now();
  const auto seconds = [](const std::optional<Duration>& duration) -> std::optional<double> {
    if (!duration) return std::nullopt;
    return seconds_of(*duration);
  };
  JsonWriter json;
  json.begin_list();
  for (std::size_t i = 0; i < overview_.fleet->pools().size(); ++i) {
    const PoolState& pool = *overview_.fleet->pools()[i].state;
    const PoolConfig& config = overview_.config->pools[i];
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
  return json_answer(json);
}

}  // namespace evenkeel
