#include "evenkeel/upstream/metrics_poller.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "evenkeel/base/host.h"
#include "evenkeel/inference/engine_metrics.h"
#include "upstream/gpu_exporter.h"
#include "upstream/polled_source.h"

namespace evenkeel {
namespace {

/// The path of a page if the file names none.
std::string_view default_metrics_path(const Engine& engine) {
  return engine.metrics.path.empty() ? std::string_view("/metrics") : engine.metrics.path;
}

/// True if there is a page of the engine itself to poll.
bool polls_engine(const MetricsPollSpec& spec) {
  const MetricsConfig& config = spec.config;
  const Engine& engine = engine_named(spec.engine);
  if (config.scrape == Scrape::off || series_of(engine).series.empty()) return false;
  if (!spec.url.empty()) {
    return !is_consumed_by_scrape(engine, path_of(spec.url, default_metrics_path(engine)));
  }
  if (is_consumed_by_scrape(engine, config.path)) return false;
  if (engine.metrics.separate_port && config.port == 0 && config.path.empty()) return false;
  return !config.path.empty() || !engine.metrics.path.empty();
}

/// The engine's page at the backend itself.
ScrapeTarget backend_scrape_target(const MetricsPollSpec& spec, const ServerAccess& access) {
  const Engine& engine = engine_named(spec.engine);
  ScrapeTarget target{.path = spec.config.path, .access = access};
  if (target.path.empty()) {
    target.path = engine.metrics.path;
    target.short_path = engine.metrics.short_path;
  }
  std::uint16_t port = spec.config.port;
  if (port == 0) port = metrics_port_of(engine, access.port());
  if (port == access.port()) return target;

  // Another port serves metrics only: without TLS, and without the API key.
  target.access.authorization.clear();
  target.access.links.connector.tls = nullptr;
  target.access.links.protocol = BackendProtocol::http1;
  target.access.set_port(port);
  return target;
}

Result<ScrapeTarget> engine_scrape_target(const MetricsPollSpec& spec, const ServerAccess& access,
                                          SystemTrustStore& trust_store) {
  if (spec.url.empty()) return backend_scrape_target(spec, access);
  return parse_scrape_target(spec.url, default_metrics_path(engine_named(spec.engine)),
                             trust_store);
}

}  // namespace

bool is_polled(const MetricsPollSpec& spec) {
  return polls_engine(spec) || !spec.config.gpu.empty();
}

/// Polls the page of an engine.
class EngineSource final : public PolledSource {
 public:
  struct Observer {
    virtual void on_engine_changed() = 0;

   protected:
    ~Observer() = default;
  };

  EngineSource(Loop& loop, ScrapeTarget target, NameResolver resolve, const Options& options,
               const Engine& engine, SharedBackend& shared, Observer& observer)
      : PolledSource(loop, std::move(target), std::move(resolve), options),
        engine_(engine),
        shared_(shared),
        observer_(observer) {
    start();
  }

  const LoadSample& reading() const { return reading_; }
  std::uint32_t in_flight_at_poll() const { return in_flight_at_poll_; }
  bool asleep() const { return asleep_; }

 private:
  /// True unless requests in flight keep the model awake anyway: our own, and those of others at
  /// the last poll.
  bool resting() const override {
    const bool others = reading_.running > 0 || reading_.waiting > 0;
    return engine_.metrics.prevents_sleep && shared_.slots.in_flight() == 0 && !others;
  }
  std::string_view required_option() const override { return engine_.metrics.required_option; }
  void on_request() override {
    reader_.emplace(engine_);
    in_flight_at_request_ = shared_.slots.in_flight();
  }
  void on_data(std::string_view bytes) override { reader_->read(bytes); }
  std::string finish(const Scraped& scraped) override {
    if (is_truncated(scraped, *reader_)) return "the metrics page is incomplete";
    const EngineReport report = reader_->report();
    shared_.signals.engine().report(report);
    asleep_ = report.awake == 0;
    const LoadSample reading = reader_->reading();
    if (!reading.any()) return "the page has no series that this engine is known for";
    reading_ = reading;
    in_flight_at_poll_ = in_flight_at_request_;
    return {};
  }
  void forget() override {
    reading_ = {};
    asleep_ = false;  // unknown
  }
  void notify() override { observer_.on_engine_changed(); }

  const Engine& engine_;
  SharedBackend& shared_;
  Observer& observer_;
  std::optional<EngineMetricsReader> reader_;
  LoadSample reading_;
  bool asleep_ = false;
  std::uint32_t in_flight_at_request_ = 0;
  std::uint32_t in_flight_at_poll_ = 0;
};

/// Merges the values of engine and exporter, and publishes them.
struct MetricsPoller::State final : EngineSource::Observer, GpuObserver {
  State(MetricsPollSpec poll_spec, ServerAccess server_access, BackendPtr polled)
      : spec(std::move(poll_spec)), access(std::move(server_access)), backend(std::move(polled)) {}
  ~State() {
    if (exporter != nullptr) exporter->remove(*this);
    backend->signals().forget();
    backend->signals().engine().forget();
    backend->note_sleep(SleepSource::page, false);
  }

  void on_engine_changed() override { publish(); }
  void on_gpus_changed() override { publish(); }

  void publish() {
    backend->note_sleep(SleepSource::page, engine && engine->asleep());
    const LoadSample from_engine = engine ? engine->reading() : LoadSample{};
    LoadSample gpu;
    if (exporter != nullptr) gpu = aggregate_gpus(exporter->gpus(), spec.gpus);
    const auto first_known = [](double a, double b) { return std::isnan(a) ? b : a; };
    const LoadSample values{
        .running = from_engine.running,
        .waiting = from_engine.waiting,
        .kv_cache_ratio = from_engine.kv_cache_ratio,
        .gpu_utilization_ratio =
            first_known(gpu.gpu_utilization_ratio, from_engine.gpu_utilization_ratio),
        .gpu_memory_used_bytes =
            first_known(gpu.gpu_memory_used_bytes, from_engine.gpu_memory_used_bytes),
        .gpu_memory_total_bytes =
            first_known(gpu.gpu_memory_total_bytes, from_engine.gpu_memory_total_bytes)};
    // The age is that of the engine's values; of the GPU's if the engine has none; of the latest
    // values if both have expired.
    std::optional<Instant> last_success = engine ? engine->last_success() : std::nullopt;
    if (!from_engine.any() && exporter != nullptr && exporter->last_success()) {
      last_success = std::max(last_success.value_or(Instant{}), *exporter->last_success());
    }
    if (!last_success) return;
    backend->signals().publish(values, *last_success, engine ? engine->in_flight_at_poll() : 0);
  }

  const MetricsPollSpec spec;
  const ServerAccess access;
  BackendPtr backend;
  std::shared_ptr<GpuExporter> exporter;
  std::optional<EngineSource> engine;
  PollRecord unpolled{.state = PollRecord::State::silent};  // while there is no `engine`
};

MetricsPoller::MetricsPoller(Loop& loop, const MetricsPollSpec& spec, const ServerAccess& access,
                             BackendPtr backend, GpuExporters& exporters)
    : state_(std::make_unique<State>(spec, access, std::move(backend))) {
  GpuExporters::State& shared = *exporters.state_;
  const MetricsConfig& config = spec.config;
  if (polls_engine(spec)) {
    auto target = engine_scrape_target(spec, access, shared.trust_store);
    if (target) {
      state_->engine.emplace(
          loop, std::move(*target), shared.resolve,
          PolledSource::Options{
              .interval = config.interval, .timeout = config.timeout, .seed = shared.random()},
          engine_named(spec.engine), state_->backend->shared(), *state_);
    } else {
      state_->unpolled.reason = target.error().detail;
    }
  }
  if (config.gpu.empty()) return;
  state_->exporter = shared.at(config.gpu);
  if (state_->exporter != nullptr) state_->exporter->add(*state_, config);
}

MetricsPoller::~MetricsPoller() = default;

void MetricsPoller::replace(BackendPtr backend) { state_->backend = std::move(backend); }

void MetricsPoller::poll_now() {
  if (state_->engine) state_->engine->poll_now();
}

PollStatus MetricsPoller::status() const {
  PollStatus status{.engine = state_->engine ? state_->engine->record() : state_->unpolled};
  if (state_->exporter == nullptr) return status;
  PollRecord& gpu = status.gpu_exporter.emplace(state_->exporter->record());
  if (gpu.state == PollRecord::State::fresh &&
      !aggregate_gpus(state_->exporter->gpus(), state_->spec.gpus).any()) {
    gpu.state = PollRecord::State::failing;
    gpu.reason = state_->spec.gpus.empty() ? "the exporter has no values for any GPU"
                                           : "the exporter has no values for these GPUs";
  }
  return status;
}

std::uint64_t MetricsPoller::revision() const {
  return (state_->engine ? state_->engine->revision() : 0) +
         (state_->exporter == nullptr ? 0 : state_->exporter->revision());
}

bool MetricsPoller::polls(const MetricsPollSpec& spec, const ServerAccess& access,
                          const Backend& backend) const {
  return spec == state_->spec && access == state_->access &&
         &backend.shared() == &state_->backend->shared();
}

}  // namespace evenkeel
