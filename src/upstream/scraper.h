// Reads one exposition over a connection that is kept where its server allows.
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
#include "evenkeel/upstream/metrics_poller.h"

namespace evenkeel {

/// Where an exposition is: at a server whose addresses are known, or that has to be looked up.
struct ScrapeTarget {
  std::string path;
  std::string short_path = {};  ///< asked first, see EngineMetricsPage; empty: none
  ServerAccess access;          ///< `addresses` may be empty: then they are those of `host`
  std::string host;             ///< without brackets
  std::uint16_t port = 0;
};

/// What came of one reading.
struct Scraped {
  int status = 0;
  bool open_metrics = false;  ///< whose last line is `# EOF`
  bool has_length = false;    ///< the server said before how long it would be
  Duration took{};            ///< from the question to the last byte, less the way there and back
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

  /// Errors: those of dialling and of a link; first_byte_timeout when the body's last byte is not
  /// here by the deadline; backend_protocol when the body has no end.
  Task<Result<Scraped>> read(ScrapeObserver& observer, Instant deadline);

  /// The short path has brought nothing: from now on the other. False: it is that already.
  bool drop_short_path() { return !std::exchange(target_.short_path, {}).empty(); }

 private:
  Task<Result<Done>> ensure_client();
  Task<Result<Scraped>> scrape(ScrapeObserver& observer);
  Task<Result<OpenResponse>> open(Request& request, ScrapeObserver& observer);
  Task<Result<Done>> read_body(OpenResponse& opened, ScrapeObserver& observer);

  bool uses_tls() const { return target_.access.links.connector.tls != nullptr; }

  Loop& loop_;
  ScrapeTarget target_;
  NameResolver resolve_;
  std::optional<BackendClient> client_;  // once the addresses are known
  std::optional<Duration> round_trip_;   // the shortest time that it took to connect in the clear
};

}  // namespace evenkeel
