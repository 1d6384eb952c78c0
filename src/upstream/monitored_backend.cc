#include "upstream/monitored_backend.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "evenkeel/base/hash.h"
#include "evenkeel/base/log.h"
#include "evenkeel/inference/engine.h"
#include "upstream/health_check_spec.h"

namespace evenkeel {
namespace {

/// How long the open requests of a backend that does not respond may go without a byte: several
/// checks, so that one which was only slow for a while keeps them.
Duration max_silence_of(const MonitorSpec& spec) {
  constexpr Duration shortest = std::chrono::seconds(20);
  return std::max<Duration>(shortest, 4 * spec.health.config.interval);
}

/// One attempt may fail for a reason that lies in the network.
constexpr std::uint32_t min_connect_failures = 2;

bool detects_engine(const MonitorSpec& spec) { return spec.health.engine == undetected_engine; }

DetectionSpec detection_spec(const MonitorSpec& spec) {
  return {.interval = spec.health.config.interval,
          .timeout = spec.health.config.timeout,
          .may_be_grpc = spec.health.protocol == BackendProtocol::http2};
}

log::Level log_level(HealthState state, bool is_first_result) {
  if (state == HealthState::down) return log::Level::warning;
  return state == HealthState::up && is_first_result ? log::Level::debug : log::Level::info;
}

}  // namespace

MonitoredBackend::MonitoredBackend(Loop& loop, std::uint64_t seed, MonitorSpec spec,
                                   GpuExporters& exporters, std::function<void()> on_change,
                                   std::function<void(Duration)> on_suspicion)
    : loop_(loop),
      rng_(seed),
      spec_(std::move(spec)),
      exporters_(exporters),
      on_change_(std::move(on_change)),
      on_suspicion_(std::move(on_suspicion)) {
  unchecked_record_.since = std::chrono::system_clock::now();
  apply(false);
  if (detects_engine(spec_)) start_detection();
}

void MonitoredBackend::update(MonitorSpec spec) {
  const bool same_engine = spec.health.engine == spec_.health.engine;
  spec_ = std::move(spec);
  ++own_revision_;
  if (!same_engine && detection_) {
    own_revision_ += detection_->revision();
    detection_.reset();
  }
  apply(in_rotation());
  if (!detects_engine(spec_)) return;
  if (detection_) {
    detection_->update(detection_spec(spec_), spec_.access);
  } else {
    start_detection();
  }
}

void MonitoredBackend::start_detection() {
  EngineDetection::Observer& observer = *this;
  detection_.emplace(loop_, rng_(), fmt::format("pool {}: {}", spec_.pool, spec_.backend->id()),
                     detection_spec(spec_), spec_.access, observer);
  detection_->start();
}

void MonitoredBackend::check_triggers() {
  std::uint32_t recoveries = 0;
  bool suspected = spec_.backend->state().connect_failures() >= min_connect_failures;
  if (checker_ != nullptr) {
    checker_->check_triggers();
    recoveries = checker_->recoveries();
    suspected = suspected || checker_->silent();
  }
  check_model_triggers(suspected);
  spec_.backend->signals().expire_report(loop_.now());
  const bool recovered = std::exchange(seen_recoveries_, recoveries) < recoveries;
  if (recovered && poller_ != nullptr) poller_->poll_now();
  if (std::exchange(suspected_, suspected) == suspected && !recovered) return;
  on_suspicion_(suspected ? max_silence_of(spec_) : Duration::max());
}

std::uint64_t MonitoredBackend::blocked_locally() const {
  return (detection_ ? detection_->blocked_locally() : 0) +
         (checker_ == nullptr ? 0 : checker_->record().blocked_locally);
}

BackendStatus MonitoredBackend::status() const {
  BackendStatus status{.pool = spec_.pool,
                       .backend = spec_.backend->id(),
                       .engine = spec_.health.engine,
                       .health = checker_ == nullptr ? unchecked_record_ : checker_->record()};
  if (identity() != nullptr) status.engine = identity()->engine;
  status.models = status.health.models;
  if (status.models == nullptr && detection_) status.models = detection_->models();
  if (model_lister_ != nullptr && model_lister_->cards() != nullptr) {
    status.cards = model_lister_->cards();
    status.models = model_lister_->models();
  }
  if (model_lister_ != nullptr) status.models_problem = model_lister_->problem();
  status.has_own_models_api = known_engine().health.listing == ModelListing::tfserving;
  if (poller_ != nullptr) status.polled = poller_->status();
  return status;
}

std::uint64_t MonitoredBackend::revision() const {
  return own_revision_ + (detection_ ? detection_->revision() : 0) +
         (checker_ == nullptr ? 0 : checker_->revision()) +
         (poller_ == nullptr ? 0 : poller_->revision()) +
         (model_lister_ == nullptr ? 0 : model_lister_->revision());
}

const EngineIdentity* MonitoredBackend::identity() const {
  return detection_ && detection_->identity() ? &*detection_->identity() : nullptr;
}

/// True if health does not keep the backend out of rotation.
bool MonitoredBackend::in_rotation() const {
  const BackendState& state = spec_.backend->state();
  return !state.is_out(OutOfRotation::starting) && !state.is_out(OutOfRotation::unhealthy);
}

bool MonitoredBackend::is_serving() const {
  return checker_ == nullptr || checker_->record().state == HealthState::up;
}

void MonitoredBackend::on_engine_unknown(std::string reason) {
  if (checker_ != nullptr || unchecked_record_.state != HealthState::starting) return;
  unchecked_record_.reason = std::move(reason);
  report_first_result();
}

/// `serving`: the backend is in rotation, and stays so until a check fails.
void MonitoredBackend::apply(bool serving) {
  const bool detected = identity() != nullptr;
  spec_.backend->findings().set_detected_engine(
      detected ? number_of(engine_named(identity()->engine)) : std::uint8_t{0});
  apply_health_spec(serving);
  apply_metrics_spec();
  apply_model_listing();
}

void MonitoredBackend::apply_health_spec(bool serving) {
  HealthCheckSpec target = spec_.health;
  if (identity() != nullptr) {
    target.engine = identity()->engine;
    target.kserve = identity()->kserve;
  }
  if (resolved_check_kind(target) == HealthCheckKind::off) return stop_checks(serving);
  if (checker_ != nullptr) {
    checker_->update(std::move(target), spec_.access, spec_.backend);
    return;
  }
  ++own_revision_;
  checker_ = std::make_unique<HealthChecker>(
      loop_, rng_(), std::move(target), spec_.access, spec_.backend, serving,
      [this](const HealthRecord& record) { on_health_changed(record); });
}

/// Ends the checks; the backend is in rotation without them, unless detection has yet to say how to
/// check it.
void MonitoredBackend::stop_checks(bool serving) {
  if (checker_ != nullptr) {
    own_revision_ += checker_->revision();
    unchecked_record_ = checker_->record();
    checker_.reset();
    spec_.backend->note_sleep(SleepSource::check, false);
  }
  ++own_revision_;
  HealthRecord& record = unchecked_record_;
  const bool awaits_detection = detects_engine(spec_) && identity() == nullptr &&
                                spec_.health.config.check != HealthCheckKind::off;
  if (awaits_detection && !serving) {
    record.state = HealthState::starting;
    record.reason = "the engine is not detected yet";
    spec_.backend->state().take_out(OutOfRotation::starting);
    return;
  }
  if (record.state != HealthState::unchecked) record.since = std::chrono::system_clock::now();
  record.state = HealthState::unchecked;
  record.reason.clear();
  spec_.backend->put_back(OutOfRotation::starting);
  spec_.backend->put_back(OutOfRotation::unhealthy);
  report_first_result();
}

/// Keeps the poller if nothing changes for it.
void MonitoredBackend::apply_metrics_spec() {
  MetricsPollSpec target = spec_.metrics;
  if (identity() != nullptr) target.engine = identity()->engine;
  if (poller_ != nullptr && poller_->polls(target, spec_.access, *spec_.backend)) {
    return poller_->replace(spec_.backend);
  }
  ++own_revision_;
  if (poller_ != nullptr) own_revision_ += poller_->revision();
  poller_.reset();  // before the next one starts: it withdraws the values that it published
  if (!is_polled(target)) return;
  poller_ = std::make_unique<MetricsPoller>(loop_, target, spec_.access, spec_.backend, exporters_);
}

const Engine& MonitoredBackend::known_engine() const {
  const EngineIdentity* const found = identity();
  return found != nullptr ? engine_of_server(found->engine, found->kserve)
                          : engine_of_server(spec_.health.engine, spec_.health.kserve);
}

/// The models of a backend that serves are listed; what one that is down had listed is forgotten.
void MonitoredBackend::apply_model_listing() {
  const EngineHealth& engine = known_engine().health;
  const bool unidentified = detects_engine(spec_) && identity() == nullptr;
  // A server that may be anything is asked only for what the file does not say.
  const bool asked = spec_.health.engine != generic_engine.name || spec_.health.models.empty();
  const bool for_adapters = spec_.lists_adapters && engine.lists_adapters;
  const bool wanted = ((spec_.lists_models && asked) || for_adapters) && !unidentified &&
                      is_serving() && engine.listing == ModelListing::openai;
  if (model_lister_ != nullptr && wanted && model_lister_->lists(spec_.access)) return;
  drop_model_lister();
  if (!wanted) return;
  ++own_revision_;
  model_lister_ = std::make_unique<ModelLister>(loop_, rng_(), spec_.access, [this] {
    // No health check would find that it accepts connections again.
    if (checker_ == nullptr && spec_.backend->state().connect_failures() != 0)
      spec_.backend->connected();
  });
}

void MonitoredBackend::drop_model_lister() {
  if (model_lister_ == nullptr) return;
  own_revision_ += 1 + model_lister_->revision();
  model_lister_.reset();
}

/// Lists the models of a backend anew when something points to a change. `suspected`: requests
/// cannot connect to it.
void MonitoredBackend::check_model_triggers(bool suspected) {
  if (model_lister_ == nullptr) return;
  bool changed = suspected && !suspected_ && checker_ == nullptr;
  if (checker_ != nullptr && checker_->record().models != checked_models_) {
    checked_models_ = checker_->record().models;
    changed = true;
  }
  if (changed) model_lister_->list_now();
  log_models_problem();
  publish_adapters();
}

/// Logs once for each cause in a row.
void MonitoredBackend::log_models_problem() {
  const std::string& problem = model_lister_->problem();
  if (problem.empty() || problem == logged_models_problem_) return;
  logged_models_problem_ = problem;
  log::polling.warning(
      fmt::format("pool {}: {}: its list of models is not known: GET /v1/models: {}", spec_.pool,
                  spec_.backend->id(), problem));
}

/// Publishes which of the backend's models are adapters. What a backend that goes down offered is
/// kept: it will come back with the same.
void MonitoredBackend::publish_adapters() {
  const ModelCards& cards = model_lister_->cards();
  if (cards == nullptr || cards == published_cards_) return;
  published_cards_ = cards;
  OfferedAdapters adapters;
  for (const ModelCard& card : *cards) {
    if (card.parent.empty()) continue;
    const std::uint64_t own = hash_of(card.id);
    adapters.push_back({.name = own, .adapter = own});
    // SGLang takes this name, too.
    adapters.push_back({.name = hash_of(card.parent + ":" + card.id), .adapter = own});
  }
  spec_.backend->signals().engine().offers(std::move(adapters));
}

void MonitoredBackend::on_health_changed(const HealthRecord& record) {
  log::health.write(
      log_level(record.state, !first_result_),
      fmt::format("pool {}: {} is {}{}{}", spec_.pool, spec_.backend->id(), to_string(record.state),
                  record.reason.empty() ? "" : ": ", record.reason));
  // Another server may come back in its place.
  const bool detects_again =
      first_result_ && detection_ && (detection_->running() || record.state != HealthState::up);
  if (detects_again) detection_->start();
  apply_model_listing();
  report_first_result();
}

void MonitoredBackend::report_first_result() {
  first_result_ = true;
  ++own_revision_;
  on_change_();
}

}  // namespace evenkeel
