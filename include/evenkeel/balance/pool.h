// Pools: backends that can stand for each other, and the line in which requests wait for a place.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "evenkeel/balance/backend.h"
#include "evenkeel/balance/hint.h"
#include "evenkeel/balance/lease.h"
#include "evenkeel/balance/picker.h"
#include "evenkeel/base/clock.h"
#include "evenkeel/base/loop.h"
#include "evenkeel/base/result.h"
#include "evenkeel/base/task.h"

namespace evenkeel {

class PoolMaintenance;
class RequestQueue;

/// How many requests may wait for a place, and how long.
struct QueueSpec {
  std::uint32_t size = 1024;  ///< 0: none waits
  Duration timeout = std::chrono::seconds(30);
};

/// When spares (`BackendSpec::standby`) come in and go. Shares of what the others can carry: of
/// their places, of their KV caches, or of a queue of five requests in each engine.
struct SparesSpec {
  double enter = 0.8;
  double leave = 0.5;
  Duration dwell = std::chrono::seconds(30);  ///< the load must stay below `leave` for so long
};

/// What the configuration says of a pool.
struct PoolSpec {
  std::string name;
  std::string picker = "least-connections";  ///< one of `known_pickers()`
  double load_factor = 1.25;                 ///< of consistent-hash
  /// Of gpu: a backend whose VRAM or KV cache is fuller than this share is left alone while another
  /// stands; 0: none is.
  double memory_guard = 0;
  bool observed_weights = false;  ///< weighted: by what each backend is seen to get done
  QueueSpec queue;
  SparesSpec spares;
  std::vector<BackendSpec> backends;  ///< ids are unique
};

/// What the waiting line has seen since the pool first stood.
struct QueueStats {
  std::uint32_t waiting = 0;       ///< now
  std::uint64_t waited_total = 0;  ///< waits that ended with a place
  Duration waited_sum{};           ///< of those
  std::uint64_t full_total = 0;
  std::uint64_t timeout_total = 0;
  std::uint64_t abandoned_total = 0;  ///< dropped while they waited: the client had gone
};

/// What all workers share of a pool: its backends and its waiting line.
///
/// Immutable in shape; a reload builds another that takes over from this one.
/// Thread: any.
class PoolState {
 public:
  /// REQUIRES: `spec.picker` is known. With a predecessor, backends of the same id keep their
  /// counters (one whose spec is unchanged is the same object), and those who wait in its line are
  /// served from the same places as those who come after the reload.
  static std::shared_ptr<PoolState> build(PoolSpec spec, const PoolState* predecessor = nullptr);

  const PoolSpec& spec() const { return spec_; }
  const Backends& backends() const { return *backends_; }

  /// Requests in flight on the backends of this pool.
  std::uint64_t in_flight() const;
  /// Taken places over all places, 0..1; 0 when a backend has no limit.
  double saturation_ratio() const;
  /// How many backends are open and not left alone.
  std::size_t available(Instant now) const;
  QueueStats queue() const;

  /// From now on this is the pool that runs: its limits hold for those who wait in line already.
  void activate() const;
  /// What has to be done from time to time: lets spares in and out, learns the backends' speeds.
  /// Thread: the control thread, about ten times a second. What it has learnt passes on to the
  /// state that is built with this one as predecessor; from then on only that one is turned.
  void tick(Instant now);

  // ---- for Pool and RequestQueue ----

  RequestQueue& request_queue() const { return *request_queue_; }
  std::unique_ptr<Picker> new_picker(std::uint64_t seed) const { return picker_factory_(seed); }
  /// The backend with these counters, or null.
  const BackendPtr* find(const Load& load) const;
  /// There is a backend that the request has not tried and that may take it, now or when it has
  /// room, or when its pool needs its spares.
  bool may_become_available(const ExcludedBackends& excluded) const;
  /// There is one that the request has not tried, that is open and not left alone.
  bool has_available(const ExcludedBackends& excluded, Instant now) const;
  /// Not to be given requests while another stands: it could not be connected, or its memory is
  /// nearly full.
  bool deprioritized(const Load& load, Instant now) const;

 private:
  PoolState();

  PoolSpec spec_;
  std::shared_ptr<Backends> backends_;
  std::unordered_map<const Load*, std::size_t> index_;
  std::shared_ptr<RequestQueue> request_queue_;
  std::shared_ptr<PoolMaintenance> maintenance_;
  PickerFactory picker_factory_;
};

/// One worker's entrance to a pool.
///
/// Thread: the loop's. REQUIRES: outlives the tasks of `place`; leases may outlive it.
class Pool {
 public:
  /// A different `seed` for every worker.
  Pool(std::shared_ptr<PoolState> state, Loop& loop, std::uint64_t seed);

  /// A place on one of the backends. At once, without suspending and without allocating, when there
  /// is room; when all are full, after a wait in line, first come first served over all workers,
  /// until `deadline` or the queue's timeout. Drop the task to leave the line.
  ///
  /// Errors, all of them ours: `no_backend` (there is none that `hint` has not tried),
  /// `queue_full`, `queue_timeout`.
  Task<Result<Lease>> acquire(const Hint& hint, Instant deadline = never);

  const PoolState& state() const { return *state_; }

 private:
  Task<Result<Lease>> wait_in_queue(Hint hint, Instant deadline);
  const BackendPtr* pick_backend(const Hint& hint);
  Error no_backend_error() const;

  std::shared_ptr<PoolState> state_;
  Loop& loop_;
  std::unique_ptr<Picker> picker_;
};

}  // namespace evenkeel
