#include "evenkeel/admin/trace_exporter.h"

#include <fmt/format.h>
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "admin/otlp_collector.h"
#include "evenkeel/base/log.h"
#include "evenkeel/base/signals_blocked.h"

namespace evenkeel {
namespace {

constexpr Duration usual_interval = std::chrono::seconds(1);
constexpr Duration short_interval = std::chrono::milliseconds(100);  // when many spans come
constexpr std::size_t many_bytes = SpanQueue::max_bytes / 8;         // of one worker, in a round
constexpr std::size_t max_request_bytes = SpanQueue::max_bytes;      // but for one worker's spans
constexpr Duration request_timeout = std::chrono::seconds(10);
constexpr Duration first_pause = std::chrono::seconds(1);  // before spans are sent again; doubles
constexpr int max_tries = 5;
constexpr Duration stop_deadline = std::chrono::seconds(2);
constexpr int niceness = 5;  // as that of the admin thread

}  // namespace

class TraceExporter::Impl {
 public:
  Impl(MetricsRegistry& metrics, std::string version, const TracingConfig& config)
      : metrics_(metrics), version_(std::move(version)), next_(config) {
    const SignalsBlocked blocked;  // inherited by the thread
    thread_ = std::thread([this] { run(); });
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  ~Impl() {
    std::unique_lock lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
    if (!changed_.wait_for(lock, stop_deadline, [this] { return ended_; }) && collector_ != nullptr)
      collector_->cancel();
    lock.unlock();
    thread_.join();
  }

  /// `is_other`: the collector is another one, which does not wait for what the old one is being
  /// sent.
  void apply(const TracingConfig& config, bool is_other) {
    const std::lock_guard lock(mutex_);
    next_ = config;
    if (is_other && collector_ != nullptr) collector_->cancel();
    changed_.notify_all();
  }

 private:
  void run() {
    pthread_setname_np(pthread_self(), "traces");
    setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), niceness);
    Duration interval{};
    do {
      wait(interval);
      adopt();
      interval = export_waiting() ? short_interval : usual_interval;
    } while (!stopping());
    export_waiting();  // what was recorded before the workers stopped
    const std::lock_guard lock(mutex_);
    ended_ = true;
    changed_.notify_all();
  }

  /// Returns early when there is another configuration, or the end.
  void wait(Duration time) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, time, [this] { return stopping_ || next_.has_value(); });
  }

  bool stopping() {
    const std::lock_guard lock(mutex_);
    return stopping_;
  }

  /// True if there was another configuration.
  bool adopt() {
    const std::lock_guard lock(mutex_);
    if (!next_) return false;
    collector_ = std::make_unique<OtlpCollector>(*next_, version_);
    next_.reset();
    failure_reported_ = false;
    return true;
  }

  /// True if there were many spans.
  bool export_waiting() {
    bool many = false;
    SpanBatch request;
    for (unsigned worker = 0; worker < metrics_.size(); ++worker) {
      const auto batch = metrics_.worker_metrics(worker).spans().take();
      if (batch == nullptr) continue;
      many = many || batch->json.size() > many_bytes;
      if (request.count > 0 && request.json.size() + batch->json.size() > max_request_bytes)
        send(std::exchange(request, {}));
      if (request.count > 0) request.json += ',';
      request.json += batch->json;
      request.count += batch->count;
    }
    if (request.count > 0) send(request);
    return many;
  }

  /// Sends until the collector has answered, or has failed too often.
  void send(const SpanBatch& spans) {
    const std::string body = collector_->body_of(spans.json);
    Duration pause = first_pause;
    for (int tries = 1;; ++tries) {
      const OtlpOutcome outcome = collector_->send(body, request_timeout);
      if (outcome.kind == OtlpOutcome::Kind::taken) return count_taken(spans, outcome);
      if (adopt()) {  // the old collector was given up, or would not be asked again
        tries = 0;
        pause = first_pause;
        continue;
      }
      counters().failures.add();
      report_failure(outcome);
      if (outcome.kind == OtlpOutcome::Kind::rejected) return lose(spans.count, SpanLoss::rejected);
      if (tries == max_tries || stopping()) return lose(spans.count, SpanLoss::unreachable);
      wait(std::max(pause, outcome.retry_after));
      adopt();
      pause *= 2;
    }
  }

  void count_taken(const SpanBatch& spans, const OtlpOutcome& outcome) {
    const std::uint64_t rejected = std::min(outcome.rejected_spans, spans.count);
    counters().exported.add(spans.count - rejected);
    lose(rejected, SpanLoss::rejected);
    if (rejected > 0 || !outcome.why.empty()) return report_failure(outcome);
    if (std::exchange(failure_reported_, false)) log::tracing.info("traces are exported again");
  }

  void lose(std::uint64_t count, SpanLoss loss) {
    counters().lost[static_cast<std::size_t>(loss)].add(count);
  }

  /// Reports a failure once, until spans are taken again.
  void report_failure(const OtlpOutcome& outcome) {
    if (std::exchange(failure_reported_, true)) return;
    log::tracing.warning(
        fmt::format("tracing.otlp: spans cannot be exported: {}", log_text_of(outcome)));
  }
  static std::string log_text_of(const OtlpOutcome& outcome) {
    if (outcome.kind != OtlpOutcome::Kind::taken) return outcome.why;
    return fmt::format("it rejected {} spans: {}", outcome.rejected_spans, outcome.why);
  }

  SpanExportCounters& counters() { return metrics_.span_export(); }

  MetricsRegistry& metrics_;
  const std::string version_;
  bool failure_reported_ = false;
  std::mutex mutex_;  // guards what follows; the collector is replaced under it
  std::condition_variable changed_;
  std::optional<TracingConfig> next_;
  std::unique_ptr<OtlpCollector> collector_;
  bool stopping_ = false;
  bool ended_ = false;
  std::thread thread_;
};

TraceExporter::TraceExporter(MetricsRegistry& metrics, std::string version)
    : metrics_(metrics), version_(std::move(version)) {}
TraceExporter::~TraceExporter() = default;

void TraceExporter::apply(const TracingConfig& config) {
  if (!config.is_on() || config == applied_) return;
  const bool is_other = config.otlp != applied_.otlp || config.headers != applied_.headers;
  applied_ = config;
  if (impl_ != nullptr) return impl_->apply(config, is_other);
  try {
    impl_ = std::make_unique<Impl>(metrics_, version_, config);
  } catch (const std::system_error& error) {
    log::tracing.error(std::string("traces are not exported: no thread: ") + error.what());
  }
}

}  // namespace evenkeel
