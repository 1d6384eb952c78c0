// One attempt at one backend.
#pragma once

#include <cstdint>

#include "evenkeel/proxy/forwarder.h"

namespace evenkeel {

/// What the attempts at the backends of a pool share on one worker; outlives them.
struct AttemptContext {
  Loop& loop;
  const PoolState& pool;
  PoolMetrics& metrics;
  const ForwarderOptions& options;

  /// The backend's engine: with `engine: auto` the pool's is none, and the backend's may be known.
  const Engine& engine_of(const Backend& backend) const;
};

/// What follows an attempt.
enum class NextAttempt : std::uint8_t {
  none,           ///< it answered, or its failure is the request's
  same_backend,   ///< the link ended, but the backend may be up: try it on a fresh link
  other_backend,  ///< this backend cannot take the request, another may
};

/// One attempt at one backend, with a slot that the request has: takes a link, sends the request,
/// and records how that ends. The loop around it awaits its steps, so that an attempt has no
/// coroutine of its own: `connect`, `send`, and `complete` or `fail`. A request with a carrier
/// needs no link: its link lease stays empty.
class Attempt {
 public:
  /// Notes the offer to the backend. `lease` is of a backend of the pool, and stays with the caller
  /// unless there is a response; `access` says how the backend is reached. What is passed outlives
  /// the attempt.
  Attempt(const AttemptContext& context, Request& request, Lease& lease,
          const BackendAccess& access);
  Attempt(const Attempt&) = delete;
  Attempt& operator=(const Attempt&) = delete;
  ~Attempt() {
    if (connect_began_ != never) end_connecting();
  }

  Task<Result<LinkLease>> connect(LinkPool::LinkChoice choice);
  /// Sends the request; returns when the head of the response has arrived. REQUIRES: the task does
  /// not outlive the attempt.
  Task<Result<Response>> send(LinkLease link);
  /// Ties the slot and the link to the body of the response, which takes them over. Returns what
  /// the head says of the backend, which is recorded.
  AttemptResult complete(Response& response);
  /// Records a failure before the response.
  void fail(const Error& error, NextAttempt next);

  const Backend& backend() const { return backend_; }
  /// True if the backend may have begun.
  bool is_sent() const { return is_sent_; }
  /// True if the backend has ended the link. REQUIRES: is_sent, and no response.
  bool link_ended() const { return !link_->alive(false); }

 private:
  void begin_tracing(RequestTrace& trace) const;
  /// Records the time until a link is ready, the attempt fails, or the request is dropped.
  void end_connecting();
  void ask_for_usage() const;
  void follow_data_plane(Response& response);
  void record_failure(const Error& error, Instant now) const;

  const AttemptContext& context_;
  Request& request_;
  const Backend& backend_;
  const BackendAccess& access_;
  Lease& lease_;
  LinkLease link_;
  Instant connect_began_ = never;  // never: it does not connect
  bool is_sent_ = false;
};

}  // namespace evenkeel
