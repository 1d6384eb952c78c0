// A GPU exporter, read once for all backends whose GPUs it tells of.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "evenkeel/base/rng.h"
#include "evenkeel/inference/gpu_metrics.h"
#include "upstream/polled_source.h"

namespace evenkeel {

/// Whom exporters over TLS have to convince: the system's authorities. Read when they are needed,
/// and once for all who are connected at the same time: there are hundreds of them.
class SystemTrustStore {
 public:
  /// Errors: tls_failed.
  Result<std::shared_ptr<const TlsClientContext>> client();

 private:
  std::weak_ptr<const TlsClientContext> client_;
};

/// The path that a URL names; `otherwise` where it names none.
std::string path_of(const std::string& url, std::string_view default_path);

/// Where a URL points to. Errors: bad_request, tls_failed.
Result<ScrapeTarget> parse_scrape_target(const std::string& url, std::string_view default_path,
                                         SystemTrustStore& trust_store);

/// Who uses a GPU exporter.
class GpuObserver {
 public:
  /// There is something new, or what there was has been forgotten.
  virtual void on_gpus_changed() = 0;

 protected:
  ~GpuObserver() = default;
};

/// Thread: the loop's.
class GpuExporter final : public PolledSource {
 public:
  /// Exporters look at their GPUs once a second at most, and most of them every few.
  static constexpr Duration min_interval = std::chrono::seconds(1);
  /// Some of them start nvidia-smi for each answer, which takes its time on a host of many GPUs.
  static constexpr Duration min_timeout = std::chrono::seconds(5);

  GpuExporter(Loop& loop, ScrapeTarget target, NameResolver resolve, std::uint64_t seed);

  /// Read as often, and waited for as long, as whoever wants it most.
  void add(GpuObserver& observer, const MetricsConfig& config);
  void remove(GpuObserver& observer);

  /// All that it tells of; none: nothing is known.
  std::span<const GpuMetrics> gpus() const { return gpus_; }

 private:
  struct User {
    GpuObserver* observer;
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

/// What pollers share.
struct GpuExporters::State {
  Loop& loop;
  NameResolver resolve;
  Rng random;
  std::map<std::string, std::weak_ptr<GpuExporter>> by_url = {};
  SystemTrustStore trust_store = {};

  std::shared_ptr<GpuExporter> at(const std::string& url);
};

}  // namespace evenkeel
