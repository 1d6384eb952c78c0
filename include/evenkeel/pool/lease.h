// One request's weight on a backend.
#pragma once

#include <memory>
#include <utility>

#include "evenkeel/backend/backend.h"
#include "evenkeel/base/clock.h"
#include "evenkeel/pool/placed_request.h"

namespace evenkeel {

/// A slot on a backend, returned when the lease is dropped. An empty lease holds nothing.
///
/// Thread: one at a time; may be dropped on any.
class [[nodiscard]] Lease {
 public:
  Lease() = default;
  /// Owns a slot that `backend->try_acquire` granted. `placed`: the request, if the pool's
  /// scheduler has placed it.
  static Lease adopt(BackendPtr backend, Duration waited = {},
                     std::shared_ptr<PlacedRequest> placed = nullptr) {
    Lease lease;
    lease.backend_ = std::move(backend);
    lease.waited_ = waited;
    lease.placed_ = std::move(placed);
    return lease;
  }
  Lease(Lease&& other) noexcept = default;
  Lease& operator=(Lease&& other) noexcept {
    if (this != &other) {
      release();
      backend_ = std::move(other.backend_);
      placed_ = std::move(other.placed_);
      waited_ = other.waited_;
      begins_session_ = other.begins_session_;
      session_confirmed_ = other.session_confirmed_;
      in_session_ = other.in_session_;
    }
    return *this;
  }
  ~Lease() {
    if (backend_ != nullptr || placed_ != nullptr) release();  // most were moved from
  }

  explicit operator bool() const { return backend_ != nullptr; }
  /// Null for an empty lease.
  const BackendPtr& backend() const { return backend_; }
  /// Null unless the pool's scheduler has placed the request.
  const std::shared_ptr<PlacedRequest>& placed() const { return placed_; }
  /// How long the request queued for this slot.
  Duration waited() const { return waited_; }
  /// True if this request has pinned its session (Hint::session) to the backend.
  bool begins_session() const { return begins_session_; }
  void set_begins_session() { begins_session_ = true; }
  /// True if this backend has answered an earlier request of the session.
  bool session_confirmed() const { return session_confirmed_; }
  void set_session_confirmed() { session_confirmed_ = true; }
  /// True if the request is here because its session is.
  bool in_session() const { return in_session_; }
  void set_in_session() { in_session_ = true; }

  [[gnu::noinline]] void release() {
    if (auto backend = std::move(backend_)) backend->release();
    if (auto placed = std::move(placed_)) placed->released();
  }

 private:
  BackendPtr backend_;
  std::shared_ptr<PlacedRequest> placed_;
  Duration waited_{};
  bool begins_session_ = false;
  bool session_confirmed_ = false;
  bool in_session_ = false;
};

}  // namespace evenkeel
