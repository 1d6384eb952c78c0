// Health checks of one backend: asked again and again whether it can serve, and told from its
// answers whether it gets requests.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "evenkeel/balance/backend.h"
#include "evenkeel/base/loop.h"
#include "evenkeel/base/rng.h"
#include "evenkeel/base/task.h"
#include "evenkeel/config/config.h"
#include "evenkeel/upstream/backend_client.h"
#include "evenkeel/upstream/health_record.h"

namespace evenkeel {

/// What is asked of a server, and what its answers have to be.
struct HealthCheckSpec {
  HealthConfig config;
  std::string engine = "generic";                     ///< as the file names it, or as detected
  bool kserve = false;                                ///< generic, but it speaks KServe v2
  std::vector<std::string> models;                    ///< of its pool
  BackendProtocol protocol = BackendProtocol::http1;  ///< in which its pool speaks to it
  /// The file leaves it to us to find out what it runs: then it is asked at least whether it can be
  /// connected.
  bool engine_is_auto = false;

  bool operator==(const HealthCheckSpec&) const = default;
};

/// How such a server is asked, with `automatic` made up its mind; `off` where nobody says how.
HealthCheckKind resolved_check_kind(const HealthCheckSpec& spec);

class HealthProbe;
class RiseFallCounter;
struct CheckOutcome;

/// Checks one backend until it is dropped, and opens and closes it for requests.
///
/// Never two checks at a time. Connections are kept between checks, unless requests fail or could
/// not connect, or results speak against the state: then each check proves that it can connect.
/// Between checks lies the interval, give or take a tenth; less while results speak against the
/// state, but where they say that the server is slow. A check that runs out of time counts for
/// nothing while the server answers the requests of others: it is busy, not gone. But a token that
/// is late counts where the pool has several models: the others' answers say nothing of this one.
///
/// Thread: the loop's.
class HealthChecker {
 public:
  /// Told of the first result, and of changes of state. May not drop the checker.
  using OnChange = std::function<void(const HealthRecord&)>;

  /// REQUIRES: resolved_check_kind(question) is neither `automatic` nor `off`. The first check
  /// begins at once. `serving`: the backend had requests before it was checked, and keeps them
  /// until checks speak against it; else it gets none before its first check.
  HealthChecker(Loop& loop, std::uint64_t seed, HealthCheckSpec spec, ServerAccess access,
                BackendPtr backend, bool serving, OnChange on_change);
  HealthChecker(const HealthChecker&) = delete;
  HealthChecker& operator=(const HealthChecker&) = delete;
  /// Leaves the backend as it is, open or closed.
  ~HealthChecker();

  /// From the next check on, this is asked, there, and told to that backend, which shares the
  /// `Load` of the one before. Nothing that was learned is lost.
  void update(HealthCheckSpec spec, ServerAccess access, BackendPtr backend);
  /// There is reason to check now, if no check is under way.
  void check_now();
  /// Hurries where something has happened: workers have just failed to connect it, requests have
  /// failed by it, or it has ended the connection that was kept for its next check. A few
  /// instructions; call it often.
  void check_triggers();

  const HealthRecord& record() const { return record_; }
  /// Differs from before whenever `record()` does.
  std::uint64_t revision() const { return revision_; }

 private:
  Task<void> run();
  Task<void> check();
  bool token_is_due() const;
  void track_idle_link(bool passed);
  void apply_result(CheckOutcome outcome, bool busy);
  void enter_state(HealthState state);
  void apply_to_backend();
  bool needs_new_connection(const HealthProbe& probe);
  Duration next_delay();

  Loop& loop_;
  Rng rng_;
  std::shared_ptr<HealthProbe> probe_;
  BackendPtr backend_;
  std::unique_ptr<RiseFallCounter> rise_fall_;
  OnChange on_change_;
  HealthRecord record_;
  std::uint64_t revision_ = 0;
  bool reported_ = false;  // of the first state
  bool jittered_ = false;  // a second check was put somewhere within the interval
  bool checking_ = false;
  Instant last_check_{};             // its end
  Instant last_token_{};             // that it has written
  bool in_backoff_ = false;          // when it was last looked at
  std::uint64_t seen_errors_;        // of requests, until then
  bool requests_failed_ = false;     // requests, since the last check
  bool has_idle_link_ = false;       // the last check has left a connection behind
  bool idle_link_lost_ = false;      // that one has ended since
  bool server_closes_idle_ = false;  // it ends such connections and is well
  Signal wake_now_;
  Task<void> run_;
};

}  // namespace evenkeel
