// One server of a pool, shared by all workers.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "evenkeel/balance/load.h"
#include "evenkeel/base/clock.h"

namespace evenkeel {

class RequestQueue;

/// What the configuration says of a backend.
struct BackendSpec {
  std::string id;       ///< unique in its pool and the same after a reload: where the server is
  std::string address;  ///< host:port
  std::uint32_t weight = 1;  ///< at least 1
  std::string zone;          ///< empty: unknown
  std::map<std::string, std::string> labels;
  std::uint32_t max_in_flight = 0;  ///< over all workers; 0: no limit
  bool standby = false;             ///< a spare: closed until its pool needs it

  bool operator==(const BackendSpec&) const = default;
};

/// A server as one configuration sees it. Its spec never changes; a reload that changes it makes a
/// new Backend which shares the counters (and the waiting line) of the one before.
///
/// Thread: any.
class Backend {
 public:
  /// A backend of its own; places that come back are offered to nobody when `line` is null.
  explicit Backend(BackendSpec spec, std::shared_ptr<RequestQueue> queue = nullptr);
  /// The same server under another spec.
  Backend(BackendSpec spec, const Backend& predecessor);
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;

  const BackendSpec& spec() const { return spec_; }
  const std::string& id() const { return spec_.id; }
  Load& load() const { return *load_; }

  /// Takes a place for a request that begins now, if there is one. On a suspect backend it is also
  /// the trial: the others leave it alone until the trial has had its time. Give back with `leave`.
  bool try_acquire(Instant now) const;
  /// Gives a place back, to whoever waits for one.
  void release() const;

  /// The server could not be connected.
  void connect_failed(Instant now) const { load_->back_off(now); }
  /// From now on its limit is the one of this spec, for requests of every configuration: those who
  /// wait under an older one are served by it too.
  void activate() const;
  /// A reason to give it nothing new has gone; if it was the last, its places are offered to those
  /// who wait.
  void put_back(OutOfRotation reason) const;
  /// The server answered or was connected: whatever was held against it is forgotten. Cheap.
  void connected() const;

 private:
  BackendSpec spec_;
  std::shared_ptr<Load> load_;
  std::shared_ptr<RequestQueue> request_queue_;
};

using BackendPtr = std::shared_ptr<Backend>;
using Backends = std::vector<BackendPtr>;

}  // namespace evenkeel
