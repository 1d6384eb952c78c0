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
#include "fleet/polled_source.h"

namespace evenkeel {

/// Whom exporters over TLS have to convince: the system's authorities. Read when they are needed,
/// and once for all who are connected at the same time: there are hundreds of them.
class SystemTrust {
 public:
  /// Errors: tls_failed.
  Result<std::shared_ptr<const TlsClient>> client();

 private:
  std::weak_ptr<const TlsClient> client_;
};

/// The path that a URL names; `otherwise` where it names none.
std::string path_of(const std::string& url, std::string_view otherwise);

/// Where a URL points to. Errors: bad_request, tls_failed.
Result<ScrapePlace> scrape_place(const std::string& url, std::string_view otherwise,
                                 SystemTrust& trust);

/// Who uses a GPU exporter.
class GpuListener {
 public:
  /// There is something new, or what there was has been forgotten.
  virtual void gpus_changed() = 0;

 protected:
  ~GpuListener() = default;
};

/// Thread: the loop's.
class GpuExporter final : public PolledSource {
 public:
  /// Exporters look at their GPUs once a second at most, and most of them every few.
  static constexpr Duration shortest_interval = std::chrono::seconds(1);
  /// Some of them start nvidia-smi for each answer, which takes its time on a host of many GPUs.
  static constexpr Duration shortest_timeout = std::chrono::seconds(5);

  GpuExporter(Loop& loop, ScrapePlace place, NameResolver resolve, std::uint64_t seed);

  /// Read as often, and waited for as long, as whoever wants it most.
  void add(GpuListener& listener, const MetricsConfig& config);
  void remove(GpuListener& listener);

  /// All that it tells of; none: nothing is known.
  std::span<const GpuReading> gpus() const { return gpus_; }

 private:
  struct User {
    GpuListener* listener;
    Duration interval;
    Duration timeout;
  };

  bool resting() const override { return false; }
  void asked() override { reader_.emplace(); }
  void take(std::string_view bytes) override { reader_->read(bytes); }
  std::string finish(const Scraped& scraped) override;
  void forget() override { gpus_.clear(); }
  void tell() override;
  void settle();

  std::vector<User> users_;
  std::optional<GpuMetricsReader> reader_;
  std::vector<GpuReading> gpus_;
};

/// What pollers share.
struct GpuExporters::State {
  Loop& loop;
  NameResolver resolve;
  Rng random;
  std::map<std::string, std::weak_ptr<GpuExporter>> by_url = {};
  SystemTrust trust = {};

  std::shared_ptr<GpuExporter> at(const std::string& url);
};

}  // namespace evenkeel
