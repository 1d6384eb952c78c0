#include "upstream/metrics_poller.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "evenkeel/base/host.h"
#include "evenkeel/inference/engine_metrics.h"

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
  target.access.key = {};
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
  EngineSource(Loop& loop, ScrapeTarget target, NameResolver resolve, const Options& options,
               const Engine& engine, SharedBackend& shared, ValuesObserver& observer)
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
  void notify() override { observer_.on_values_changed(); }

  const Engine& engine_;
  SharedBackend& shared_;
  ValuesObserver& observer_;
  std::optional<EngineMetricsReader> reader_;
  LoadSample reading_;
  bool asleep_ = false;
  std::uint32_t in_flight_at_request_ = 0;
  std::uint32_t in_flight_at_poll_ = 0;
};

MetricsPoller::MetricsPoller(Loop& loop, const MetricsPollSpec& spec, const ServerAccess& access,
                             BackendPtr backend, GpuExporters& exporters)
    : spec_(spec), access_(access), backend_(std::move(backend)) {
  const MetricsConfig& config = spec.config;
  ValuesObserver& observer = *this;
  if (polls_engine(spec)) {
    auto target = engine_scrape_target(spec, access, exporters.trust_store());
    if (target) {
      engine_ = std::make_unique<EngineSource>(
          loop, std::move(*target), exporters.resolver(),
          PolledSource::Options{
              .interval = config.interval, .timeout = config.timeout, .seed = exporters.seed()},
          engine_named(spec.engine), backend_->shared(), observer);
    } else {
      unpolled_.reason = target.error().detail;
    }
  }
  if (config.gpu.empty()) return;
  exporter_ = exporters.at(config.gpu);
  if (exporter_ != nullptr) exporter_->add(observer, config);
}

MetricsPoller::~MetricsPoller() {
  engine_.reset();
  if (exporter_ != nullptr) exporter_->remove(*this);
  backend_->signals().forget();
  backend_->signals().engine().forget();
  backend_->note_sleep(SleepSource::page, false);
}

/// Merges the values of engine and exporter, and publishes them.
void MetricsPoller::on_values_changed() {
  backend_->note_sleep(SleepSource::page, engine_ && engine_->asleep());
  const LoadSample from_engine = engine_ ? engine_->reading() : LoadSample{};
  LoadSample gpu;
  if (exporter_ != nullptr) gpu = aggregate_gpus(exporter_->gpus(), spec_.gpus);
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
  std::optional<Instant> last_success = engine_ ? engine_->last_success() : std::nullopt;
  if (!from_engine.any() && exporter_ != nullptr && exporter_->last_success()) {
    last_success = std::max(last_success.value_or(Instant{}), *exporter_->last_success());
  }
  if (!last_success) return;
  backend_->signals().publish(values, *last_success, engine_ ? engine_->in_flight_at_poll() : 0);
}

void MetricsPoller::poll_now() {
  if (engine_) engine_->poll_now();
}

PollStatus MetricsPoller::status() const {
  PollStatus status{.engine = engine_ ? engine_->record() : unpolled_};
  if (exporter_ == nullptr) return status;
  PollRecord& gpu = status.gpu_exporter.emplace(exporter_->record());
  if (gpu.state == PollRecord::State::fresh &&
      !aggregate_gpus(exporter_->gpus(), spec_.gpus).any()) {
    gpu.state = PollRecord::State::failing;
    gpu.reason = spec_.gpus.empty() ? "the exporter has no values for any GPU"
                                    : "the exporter has no values for these GPUs";
  }
  return status;
}

std::uint64_t MetricsPoller::revision() const {
  return (engine_ ? engine_->revision() : 0) + (exporter_ == nullptr ? 0 : exporter_->revision());
}

bool MetricsPoller::polls(const MetricsPollSpec& spec, const ServerAccess& access,
                          const Backend& backend) const {
  return spec == spec_ && access == access_ && &backend.shared() == &backend_->shared();
}

}  // namespace evenkeel
