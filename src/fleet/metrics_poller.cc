#include "evenkeel/fleet/metrics_poller.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "evenkeel/config/address.h"
#include "evenkeel/inference/engine_metrics.h"
#include "fleet/gpu_exporter.h"
#include "fleet/polled_source.h"

namespace evenkeel {
namespace {

/// Of an exposition that nobody names a path for.
std::string_view usual_path(const MetricsDialect& dialect) {
  return dialect.path.empty() ? std::string_view("/metrics") : dialect.path;
}

/// Whether the engine itself is asked.
bool asks_engine(const MetricsQuestion& question) {
  const MetricsConfig& config = question.config;
  const MetricsDialect& dialect = metrics_dialect_of(question.engine);
  if (config.scrape == Scrape::off || dialect.series.empty()) return false;
  if (!question.url.empty()) {
    return !is_consumed_by_reading(question.engine, path_of(question.url, usual_path(dialect)));
  }
  if (is_consumed_by_reading(question.engine, config.path)) return false;
  if (dialect.elsewhere && config.port == 0 && config.path.empty()) return false;
  return !config.path.empty() || !dialect.path.empty();
}

/// The engine's exposition where the backend itself has it.
ScrapePlace place_at(const MetricsQuestion& question, const ServerAccess& access) {
  ScrapePlace place{.path = question.config.path, .access = access};
  if (place.path.empty()) {
    place.path = metrics_dialect_of(question.engine).path;
    place.short_path = metrics_dialect_of(question.engine).short_path;
  }
  std::string why;
  const auto server = parse_address(access.authority, why);
  if (!server) return place;
  std::uint16_t port = question.config.port;
  if (port == 0) port = metrics_port_of(question.engine, server->port);
  if (port == server->port) return place;

  // A port of its own is for metrics alone: in the clear, and without a key.
  place.access.authority = to_string({.host = server->host, .port = port});
  for (Endpoint& address : place.access.addresses) address.set_port(port);
  place.access.authorization.clear();
  place.access.links.connector.tls = nullptr;
  place.access.links.protocol = BackendProtocol::http1;
  return place;
}

Result<ScrapePlace> engine_place(const MetricsQuestion& question, const ServerAccess& access,
                                 SystemTrust& trust) {
  if (question.url.empty()) return place_at(question, access);
  return scrape_place(question.url, usual_path(metrics_dialect_of(question.engine)), trust);
}

}  // namespace

bool is_polled(const MetricsQuestion& question) {
  return asks_engine(question) || !question.config.gpu.empty();
}

std::string_view word_of(PollRecord::State state) {
  switch (state) {
    case PollRecord::State::waiting: return "waiting";
    case PollRecord::State::fresh: return "fresh";
    case PollRecord::State::failing: return "failing";
    case PollRecord::State::resting: return "resting";
    case PollRecord::State::silent: return "silent";
  }
  return "silent";
}

NameResolver literal_addresses_only() {
  return [](std::string host, std::uint16_t port) -> Task<Result<std::vector<Endpoint>>> {
    if (parse_ip(host)) return resolve(host, port);
    return Error{.fault = Fault::connect_failed, .detail = host + " is a name, not an address"};
  };
}

/// What an engine says of itself.
class EngineSource final : public PolledSource {
 public:
  /// Who wants to know.
  struct Listener {
    virtual void engine_changed() = 0;

   protected:
    ~Listener() = default;
  };

  EngineSource(Loop& loop, ScrapePlace place, NameResolver resolve, const Options& options,
               const MetricsDialect& dialect, const Load& load, Listener& listener)
      : PolledSource(loop, std::move(place), std::move(resolve), options),
        dialect_(dialect),
        load_(load),
        listener_(listener) {
    start();
  }

  const EngineReading& reading() const { return reading_; }
  std::uint32_t in_flight_then() const { return in_flight_then_; }

 private:
  /// Our own requests keep it awake anyway, and so do those of others that were there last time.
  bool resting() const override {
    const bool others = reading_.running > 0 || reading_.waiting > 0;
    return dialect_.keeps_awake && load_.in_flight() == 0 && !others;
  }
  std::string_view needs() const override { return dialect_.needs; }
  void asked() override {
    reader_.emplace(dialect_);
    in_flight_at_question_ = load_.in_flight();
  }
  void take(std::string_view bytes) override { reader_->read(bytes); }
  std::string finish(const Scraped& scraped) override {
    if (is_cut_short(scraped, *reader_)) return "its exposition is cut short";
    const EngineReading reading = reader_->reading();
    if (!reading.any()) return "nothing in it is known to be of its load";
    reading_ = reading;
    in_flight_then_ = in_flight_at_question_;
    return {};
  }
  void forget() override { reading_ = {}; }
  void tell() override { listener_.engine_changed(); }

  const MetricsDialect& dialect_;
  const Load& load_;
  Listener& listener_;
  std::optional<EngineMetricsReader> reader_;
  EngineReading reading_;
  std::uint32_t in_flight_at_question_ = 0;
  std::uint32_t in_flight_then_ = 0;
};

/// Brings together what engine and exporter say.
struct MetricsPoller::State final : EngineSource::Listener, GpuListener {
  explicit State(BackendPtr polled) : backend(std::move(polled)) {}
  ~State() {
    if (exporter != nullptr) exporter->remove(*this);
    backend->load().signals().forget();
  }

  void engine_changed() override { publish(); }
  void gpus_changed() override { publish(); }

  void publish() {
    const EngineReading said = engine ? engine->reading() : EngineReading{};
    EngineReading gpu;
    if (exporter != nullptr) gpu = sum_up(exporter->gpus(), gpus);
    const auto first_known = [](double a, double b) { return std::isnan(a) ? b : a; };
    const SignalValues values{
        .running = said.running,
        .waiting = said.waiting,
        .kv_cache_ratio = said.kv_cache_ratio,
        .gpu_utilization_ratio = first_known(gpu.gpu_utilization_ratio, said.gpu_utilization_ratio),
        .gpu_memory_used_bytes = first_known(gpu.gpu_memory_used_bytes, said.gpu_memory_used_bytes),
        .gpu_memory_total_bytes =
            first_known(gpu.gpu_memory_total_bytes, said.gpu_memory_total_bytes)};
    // The age is the engine's; the GPU's where the engine says nothing; of what was said last where
    // neither does any more.
    std::optional<Instant> heard = engine ? engine->heard() : std::nullopt;
    if (!said.any() && exporter != nullptr && exporter->heard()) {
      heard = std::max(heard.value_or(Instant{}), *exporter->heard());
    }
    if (!heard) return;
    backend->load().signals().publish(values, *heard, engine ? engine->in_flight_then() : 0);
  }

  BackendPtr backend;
  std::vector<std::string> gpus;
  std::shared_ptr<GpuExporter> exporter;
  std::optional<EngineSource> engine;
  PollRecord record;      // where there is no engine to ask
  PollRecord gpu_record;  // as it was told last
};

MetricsPoller::MetricsPoller(Loop& loop, const MetricsQuestion& question,
                             const ServerAccess& access, BackendPtr backend,
                             GpuExporters& exporters)
    : state_(std::make_unique<State>(std::move(backend))) {
  GpuExporters::State& shared = *exporters.state_;
  const MetricsConfig& config = question.config;
  state_->record.state = PollRecord::State::silent;
  if (asks_engine(question)) {
    auto place = engine_place(question, access, shared.trust);
    if (place) {
      state_->engine.emplace(
          loop, std::move(*place), shared.resolve,
          PolledSource::Options{
              .interval = config.interval, .timeout = config.timeout, .seed = shared.random()},
          metrics_dialect_of(question.engine), state_->backend->load(), *state_);
    } else {
      state_->record.reason = place.error().detail;
    }
  }
  if (config.gpu.empty()) return;
  state_->gpus = question.gpus;
  state_->exporter = shared.at(config.gpu);
  if (state_->exporter != nullptr) state_->exporter->add(*state_, config);
}

MetricsPoller::~MetricsPoller() = default;

PollRecord MetricsPoller::record() const {
  PollRecord record = state_->engine ? state_->engine->record() : state_->record;
  if (state_->exporter == nullptr) return record;
  state_->gpu_record = state_->exporter->record();
  record.gpu = &state_->gpu_record;
  const bool fresh = record.gpu->state == PollRecord::State::fresh;
  if (fresh && !sum_up(state_->exporter->gpus(), state_->gpus).any()) {
    state_->gpu_record.state = PollRecord::State::failing;
    state_->gpu_record.reason =
        state_->gpus.empty() ? "it tells nothing of its GPUs" : "it tells of none of these GPUs";
  }
  return record;
}

}  // namespace evenkeel
