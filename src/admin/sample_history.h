// What the daemon and its backends were doing, second by second, for the live page.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "admin/compressible_text.h"
#include "admin/documents.h"
#include "evenkeel/base/clock.h"
#include "evenkeel/json/value.h"
#include "evenkeel/stats/request_totals.h"

namespace evenkeel {

/// A value that is not known is NaN.
struct BackendSample {
  float in_flight = 0;
  float picks = 0;   ///< in this second
  float errors = 0;  ///< in this second
  float running = std::numeric_limits<float>::quiet_NaN();
  float waiting = std::numeric_limits<float>::quiet_NaN();
  float ttft = std::numeric_limits<float>::quiet_NaN();  ///< seconds, as `latency` of the API
  float tpot = std::numeric_limits<float>::quiet_NaN();
  /// Ratios in 200ths; 255: not known.
  std::uint8_t kv_cache = 255;
  std::uint8_t gpu_utilization = 255;
  std::uint8_t gpu_memory = 255;
  std::uint8_t state = 0;  ///< of `backend_states`
};
static_assert(sizeof(BackendSample) == 32);

/// The daemon as a whole. Tokens and times are those of the last ten seconds.
struct DaemonSample {
  float requests = 0;  ///< that have ended in this second
  float errors = 0;    ///< of these, those that failed and not by their clients
  float in_flight = 0;
  float waiting = 0;
  float output_tokens = 0;  ///< per second; not known before an engine has reported some
  float ttft_p50 = std::numeric_limits<float>::quiet_NaN();
  float ttft_p95 = std::numeric_limits<float>::quiet_NaN();
  float ttft_p99 = std::numeric_limits<float>::quiet_NaN();
};

/// Keeps a sample per second and backend for `max_seconds`, in at most `max_bytes`: for less time
/// where there are more than 1 165 backends. A process begins with none.
///
/// Thread: the management thread.
class SampleHistory {
 public:
  static constexpr std::size_t max_seconds = 900;
  static constexpr std::size_t max_bytes = 32 * 1024 * 1024;
  /// A document has longer steps than a second rather than more values.
  static constexpr std::size_t max_document_values = 256 * 1024;

  /// Takes the sample of this second. Seconds without one are gaps. Where the clock was set back,
  /// forgets the seconds that are yet to come.
  void sample(const RuntimeView& view, std::chrono::system_clock::time_point time);

  /// Returns the newest sample of the daemon, and errors of the whole time by reason.
  JsonValue overview() const;
  /// Returns one metric of the backends that there are now, and those of the daemon, as JSON, which
  /// is valid until the next sample. Null: no such metric.
  CompressibleText* document(std::string_view metric);

 private:
  using Key = std::pair<std::string, std::string>;  // pool, id
  using BackendKeys = std::shared_ptr<const std::vector<Key>>;
  struct Frame {
    std::int64_t second = 0;  // since 1970
    DaemonSample daemon;
    decltype(RequestTotals::errors) errors{};  // up to this second
    BackendKeys keys;
    std::vector<BackendSample> backends;
    std::size_t bytes = 0;  // of these samples, and of the keys in the first frame that has them
  };
  /// Counters of a backend at the last sample.
  struct Previous {
    std::uint64_t picks = 0;
    std::uint64_t errors = 0;
  };

  void follow(const PoolSet& pool_set);
  void sample_backends(const RuntimeView& view, Frame& frame);
  void sample_daemon(const RuntimeView& view, Frame& frame);
  void forget_from(std::int64_t second);
  void forget_old();
  std::string render(std::string_view metric, float (*value)(const BackendSample&)) const;

  std::deque<Frame> frames_;
  std::size_t bytes_ = 0;  // of all frames
  std::shared_ptr<const PoolSet> pool_set_;
  BackendKeys keys_;
  std::vector<std::optional<Previous>> previous_;           // by place in `keys_`; empty: it is new
  std::deque<RequestTotals> totals_;                        // of the last ten seconds
  std::map<std::string_view, CompressibleText> documents_;  // of the last sample, by metric
};

}  // namespace evenkeel
