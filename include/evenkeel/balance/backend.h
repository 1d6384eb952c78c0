// One backend of a pool, shared by all workers.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "evenkeel/balance/load.h"
#include "evenkeel/balance/outcome.h"
#include "evenkeel/base/clock.h"
#include "evenkeel/base/result.h"

namespace evenkeel {

class Admission;
class OutlierDetector;

/// What the configuration says of a backend.
struct BackendSpec {
  std::string id;       ///< unique in its pool, unchanged by a reload: the address as configured
  std::string address;  ///< host:port
  std::uint32_t weight = 1;  ///< at least 1
  std::string zone;          ///< empty: unknown
  std::map<std::string, std::string> labels;
  std::uint32_t max_in_flight = 0;  ///< over all workers; 0: no limit
  bool standby = false;             ///< a standby backend: out of rotation until its pool needs it

  bool operator==(const BackendSpec&) const = default;
};

/// A backend as one configuration describes it. Its spec never changes: a reload that changes it
/// makes a new Backend, which shares the counters and the queue of its predecessor.
///
/// Thread: any.
class Backend {
 public:
  /// A backend without a predecessor. Without an `admission`, slots that become free are not
  /// offered to waiting requests; without a `detector`, it is never ejected.
  explicit Backend(BackendSpec spec, std::shared_ptr<Admission> admission = nullptr,
                   std::shared_ptr<OutlierDetector> detector = nullptr);
  /// The same backend with another spec.
  Backend(BackendSpec spec, const Backend& predecessor);
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;

  const BackendSpec& spec() const { return spec_; }
  const std::string& id() const { return spec_.id; }
  Load& load() const { return *load_; }

  /// Takes a slot for a request that begins now; false when the backend is full. On a backend that
  /// needs a trial this request is the trial: the back-off starts again, so that no other request
  /// follows it. Each success is paired with one `release`.
  bool try_acquire(Instant now) const;
  /// Returns a slot, and offers it to waiting requests.
  void release() const;

  /// How one attempt at this backend ended. The forwarder calls it once for each, when the outcome
  /// is known: for a success when the last byte of the response has passed. Failures and overload
  /// make the pickers avoid the backend; a client's error or departure never does. A success costs
  /// one load while no failure is pending. `unreachable` is the same as `connect_failed`.
  void record_outcome(const AttemptResult& result, Instant now) const;
  /// A connection attempt failed: starts or extends the back-off.
  void connect_failed(Instant now, Fault fault = Fault::connect_failed) const {
    load_->set_connect_fault(fault);
    load_->back_off(now);
  }
  /// Makes this spec's limit the one that applies, also to requests that queue under an older
  /// configuration.
  void activate() const;
  /// Limits it to so many requests in flight for now; 0: no limit. For a slow start.
  void limit(std::uint32_t slots) const;
  /// Clears a reason to be out of rotation. If it was the last, the backend's slots are offered to
  /// waiting requests. One that is healthy again is not ejected any more.
  void put_back(OutOfRotation reason) const;
  /// Out of rotation while a source says that its engine sleeps. Thread: the control thread.
  void note_sleep(SleepSource source, bool sleeps) const;
  /// As Load::end_park; waiting requests then get its slots.
  void accepted(bool safe_method, Instant sent, Instant now) const;
  /// A request of evenkeel's own has succeeded on it: if it is ejected, and has been for long
  /// enough, it returns into rotation. Thread: the control thread.
  void probe_succeeded(Instant now) const;
  /// It answers again, as SilenceDetector has found. Thread: the control thread.
  void end_silence() const;
  /// A connection succeeded: ends the back-off for failed connections. Cheap when there is none.
  void connected() const;
  /// As Load::end_connect_failures; waiting requests then get its slots.
  void answered(Instant sent, Instant now) const;

 private:
  void count_failure(const AttemptResult& result, Instant now) const;
  void serve_queue() const;

  BackendSpec spec_;
  std::shared_ptr<Load> load_;
  std::shared_ptr<Admission> admission_;
  std::shared_ptr<OutlierDetector> outlier_detector_;
};

using BackendPtr = std::shared_ptr<Backend>;
using Backends = std::vector<BackendPtr>;

}  // namespace evenkeel
