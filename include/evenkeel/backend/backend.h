// One backend of a pool, shared by all workers.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "evenkeel/backend/backend_observers.h"
#include "evenkeel/backend/outcome.h"
#include "evenkeel/backend/shared_backend.h"
#include "evenkeel/base/clock.h"
#include "evenkeel/base/result.h"
#include "evenkeel/config/config.h"

namespace evenkeel {

/// What a backend is built from: a server that its configuration stands for, which may name
/// several.
struct BackendSpec {
  std::string id;       ///< unique in its pool, unchanged by a reload: the address as configured
  std::string address;  ///< host:port
  std::uint32_t max_in_flight = 0;  ///< PoolLimits::max_in_flight
  BackendConfig config{};           ///< its `weight` may be an operator's

  bool operator==(const BackendSpec&) const = default;
};

/// A backend as one configuration describes it. Its spec never changes: a reload that changes it
/// makes a new Backend, which shares all but the spec with its predecessor.
///
/// Thread: any.
class Backend {
 public:
  /// A backend without a predecessor. Without a `queue`, slots that become free are not offered to
  /// waiting requests; without an `observer`, nothing follows from its failures but that it is
  /// avoided.
  explicit Backend(BackendSpec spec, std::shared_ptr<SlotQueue> queue = nullptr,
                   std::shared_ptr<FailureObserver> observer = nullptr);
  /// The same backend with another spec.
  Backend(BackendSpec spec, const Backend& predecessor);
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;

  const BackendSpec& spec() const { return spec_; }
  const std::string& id() const { return spec_.id; }
  SharedBackend& shared() const { return *shared_; }
  BackendState& state() const { return shared_->state; }
  Slots& slots() const { return shared_->slots; }
  BackendStats& stats() const { return shared_->stats; }
  Signals& signals() const { return shared_->signals; }
  BackendFindings& findings() const { return shared_->findings; }

  /// Takes a slot for a request that begins now; false when the backend is full. If a trial is due,
  /// this request is it. Each success is paired with one `release`.
  bool try_acquire(Instant now) const;
  /// Returns a slot, and offers it to waiting requests.
  void release() const;

  /// How one attempt at this backend ended. The forwarder calls it once for each, when the outcome
  /// is known: for a success when the last byte of the response has passed. Failures and overload
  /// make the pickers avoid the backend; a client's error or departure never does. A success costs
  /// one load while the backend serves.
  void record_outcome(const AttemptResult& result, Instant now) const;
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
  /// Returns an ejected backend into rotation, if it has been ejected for long enough: a request of
  /// evenkeel's own has succeeded on it. Thread: the control thread.
  void probe_succeeded(Instant now) const;

  // Events, as of BackendState; waiting requests then get the slots.
  void accepted(bool safe_method, Instant sent, Instant now) const;
  void answered(Instant sent) const;
  void connected() const;
  void end_silence() const;

 private:
  void serve_queue() const;

  BackendSpec spec_;
  std::shared_ptr<SharedBackend> shared_;
  std::shared_ptr<SlotQueue> queue_;
  std::shared_ptr<FailureObserver> observer_;
};

using BackendPtr = std::shared_ptr<Backend>;
using Backends = std::vector<BackendPtr>;

}  // namespace evenkeel
