// One request's weight on a backend.
#pragma once

#include <utility>

#include "evenkeel/balance/backend.h"
#include "evenkeel/base/clock.h"

namespace evenkeel {

/// A slot on a backend, returned when the lease is dropped. An empty lease holds nothing.
///
/// Thread: one at a time; may be dropped on any.
class [[nodiscard]] Lease {
 public:
  Lease() = default;
  /// Owns a slot that `backend->try_acquire` granted.
  static Lease adopt(BackendPtr backend, Duration waited = {}) {
    Lease lease;
    lease.backend_ = std::move(backend);
    lease.waited_ = waited;
    return lease;
  }
  Lease(Lease&& other) noexcept = default;
  Lease& operator=(Lease&& other) noexcept {
    if (this != &other) {
      release();
      backend_ = std::move(other.backend_);
      waited_ = other.waited_;
      begins_session_ = other.begins_session_;
    }
    return *this;
  }
  ~Lease() { release(); }

  explicit operator bool() const { return backend_ != nullptr; }
  /// Null for an empty lease.
  const BackendPtr& backend() const { return backend_; }
  /// How long the request queued for this slot.
  Duration waited() const { return waited_; }
  /// The request's session (Hint::session) was pinned to the backend by this request.
  bool begins_session() const { return begins_session_; }
  void set_begins_session() { begins_session_ = true; }

  void release() {
    if (auto backend = std::move(backend_)) backend->release();
  }

 private:
  BackendPtr backend_;
  Duration waited_{};
  bool begins_session_ = false;
};

}  // namespace evenkeel
