// A collector that takes spans by OTLP over HTTP, as JSON.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "admin/url_client.h"
#include "evenkeel/base/clock.h"
#include "evenkeel/config/config.h"

namespace evenkeel {

/// What came of sending spans.
struct OtlpOutcome {
  enum class Kind : std::uint8_t {
    taken,
    rejected,  ///< sending them again would not help
    failed,    ///< they may be sent again, after `retry_after`
  };
  Kind kind = Kind::taken;
  std::uint64_t rejected_spans = 0;  ///< of those that were taken
  Duration retry_after{};            ///< 0: as the sender likes
  std::string why;                   ///< empty: nothing is wrong
};

/// What all spans of a daemon have in common, as a JSON list of attributes.
std::string resource_attributes(const TracingConfig& config, const std::string& version);

/// Thread: one; `cancel`: any.
class OtlpCollector {
 public:
  /// REQUIRES: tracing is on.
  OtlpCollector(const TracingConfig& config, const std::string& version);

  /// The body of a request with these spans, which are JSON with commas between them.
  std::string body_of(std::string_view spans) const;
  /// Sends what `body_of` returned. Blocks.
  OtlpOutcome send(const std::string& body, Duration timeout);
  /// Ends what is being sent; nothing can be sent any more.
  void cancel() { client_.cancel(); }

 private:
  static OtlpOutcome outcome_of(const HttpAnswer& answer);

  std::string fields_;  // of each request
  std::string before_;  // the JSON around the spans
  UrlClient client_;
};

}  // namespace evenkeel
