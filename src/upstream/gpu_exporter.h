// A GPU exporter, polled once for all backends whose GPUs it reports.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "evenkeel/base/rng.h"
#include "evenkeel/inference/gpu_metrics.h"
#include "upstream/polled_source.h"

namespace evenkeel {

/// The system's certificate authorities, for exporters over TLS. Loaded when first needed, and
/// shared while any exporter uses them: there are hundreds.
class SystemTrustStore {
 public:
  /// Errors: tls_failed.
  Result<std::shared_ptr<const TlsClientContext>> client();

 private:
  std::weak_ptr<const TlsClientContext> client_;
};

/// The path in a URL; `default_path` if there is none.
std::string path_of(const std::string& url, std::string_view default_path);

/// The server and path of a URL. Errors: bad_request, tls_failed.
Result<ScrapeTarget> parse_scrape_target(const std::string& url, std::string_view default_path,
                                         SystemTrustStore& trust_store);

/// Thread: the loop's.
class GpuExporter final : public PolledSource {
 public:
  /// Exporters sample their GPUs once a second at most, most of them every few seconds.
  static constexpr Duration min_interval = std::chrono::seconds(1);
  /// Some start nvidia-smi for each response, which is slow on a host with many GPUs.
  static constexpr Duration min_timeout = std::chrono::seconds(5);

  GpuExporter(Loop& loop, ScrapeTarget target, NameResolver resolve, std::uint64_t seed);

  /// Adds a user: the page is polled at the shortest interval and with the longest timeout of all
  /// users.
  void add(ValuesObserver& observer, const MetricsConfig& config);
  void remove(ValuesObserver& observer);

  /// All GPUs that it reports; empty: unknown.
  std::span<const GpuMetrics> gpus() const { return gpus_; }

 private:
  struct User {
    ValuesObserver* observer;
    Duration interval;
    Duration timeout;
  };

  bool resting() const override { return false; }
  void on_request() override { reader_.emplace(); }
  void on_data(std::string_view bytes) override { reader_->read(bytes); }
  std::string finish(const Scraped& scraped) override;
  void forget() override { gpus_.clear(); }
  void notify() override;
  void apply_fastest_settings();

  std::vector<User> users_;
  std::optional<GpuMetricsReader> reader_;
  std::vector<GpuMetrics> gpus_;
};

/// GPU exporters by URL: one that serves several backends is polled once for all of them; and what
/// else all pollers share. Thread: the loop's. Outlives the pollers that use it.
class GpuExporters {
 public:
  GpuExporters(Loop& loop, NameResolver resolve, std::uint64_t seed)
      : loop_(loop), resolve_(std::move(resolve)), random_(seed) {}
  GpuExporters(const GpuExporters&) = delete;
  GpuExporters& operator=(const GpuExporters&) = delete;

  /// The exporter at this URL. Null if it cannot be polled.
  std::shared_ptr<GpuExporter> at(const std::string& url);
  const NameResolver& resolver() const { return resolve_; }
  SystemTrustStore& trust_store() { return trust_store_; }
  /// A seed for another poller.
  std::uint64_t seed() { return random_(); }

 private:
  Loop& loop_;
  NameResolver resolve_;
  Rng random_;
  std::map<std::string, std::weak_ptr<GpuExporter>> by_url_;
  SystemTrustStore trust_store_;
};

}  // namespace evenkeel
