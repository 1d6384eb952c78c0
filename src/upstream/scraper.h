// Reads one metrics page, over a connection that is kept if the server allows it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "evenkeel/base/loop.h"
#include "evenkeel/base/result.h"
#include "evenkeel/base/task.h"
#include "evenkeel/upstream/backend_client.h"
#include "evenkeel/upstream/monitor_spec.h"

namespace evenkeel {

/// Where a page is: at a server with known addresses, or with a name that has to be resolved.
struct ScrapeTarget {
  std::string path;
  std::string short_path = {};  ///< tried first, see EngineMetricsPage; empty: none
  ServerAccess access;          ///< empty `addresses`: those of `host`
  std::string host;             ///< without brackets
  std::uint16_t port = 0;
};

/// How one poll ended.
struct Scraped {
  int status = 0;
  std::string location = {};  ///< its `Location` field
  bool open_metrics = false;  ///< its last line is `# EOF`
  bool has_length = false;    ///< the server announced the length of the body
  Duration took{};            ///< from request to last byte, less the round trip
};

/// Receives a page as it comes in.
class ScrapeObserver {
 public:
  /// The request is sent now. Called again if it has to be resent.
  virtual void on_request() = 0;
  /// The next piece of a body of status 200.
  virtual void on_data(std::string_view bytes) = 0;

 protected:
  ~ScrapeObserver() = default;
};

/// Thread: the loop's. Outlives its tasks; one at a time.
class Scraper {
 public:
  Scraper(Loop& loop, ScrapeTarget target, NameResolver resolve);
  Scraper(const Scraper&) = delete;
  Scraper& operator=(const Scraper&) = delete;

  /// Errors: those of dialling and of a link; first_byte_timeout if the last byte is not in by the
  /// deadline; backend_protocol if the body is too large.
  Task<Result<Scraped>> read(ScrapeObserver& observer, Instant deadline);

  /// The page's URL, for people.
  std::string url() const {
    return (target_.access.uses_tls() ? "https://" : "http://") + target_.access.authority + path();
  }

  /// Uses the full path from now on, as the short one brought no values. False: it does already.
  bool drop_short_path() { return !std::exchange(target_.short_path, {}).empty(); }

 private:
  const std::string& path() const {
    return target_.short_path.empty() ? target_.path : target_.short_path;
  }
  Task<Result<Done>> ensure_client();
  Task<Result<Scraped>> scrape(ScrapeObserver& observer);
  Task<Result<OpenResponse>> open(Request& request, ScrapeObserver& observer);
  Task<Result<Done>> read_body(OpenResponse& opened, ScrapeObserver& observer);

  Loop& loop_;
  ScrapeTarget target_;
  NameResolver resolve_;
  std::optional<BackendClient> client_;  // once the addresses are known
  std::optional<Duration> round_trip_;   // shortest time to connect, without TLS
};

}  // namespace evenkeel
