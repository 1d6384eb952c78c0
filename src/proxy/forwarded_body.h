// The body of a backend's response.
#pragma once

#include <cstdint>
#include <optional>

#include "evenkeel/balance/lease.h"
#include "evenkeel/base/loop.h"
#include "evenkeel/http/message.h"
#include "evenkeel/stats/worker_metrics.h"
#include "evenkeel/upstream/link_pool.h"

namespace evenkeel {

/// When the backend had the whole request; a response may begin before that.
inline Instant request_end(const RequestTimings& timings) {
  const bool uploaded_first =
      timings.uploaded != Instant{} && timings.uploaded <= timings.first_byte;
  return uploaded_first ? timings.uploaded : timings.head_sent;
}

/// A backend's body together with what is held until its last byte: the link, and the request's
/// weight on the backend. Dropping it counts the response for the backend.
///
/// REQUIRES: `info` outlives the body. Thread: the loop's.
class ForwardedBody final : public Body {
 public:
  ForwardedBody(Loop& loop, Lease lease, LinkLease link, BodyPtr body, const RequestInfo& info,
                BackendMetrics& metrics);
  ~ForwardedBody() override;

  Task<Result<Chunk>> read() override { return body_->read(); }
  std::optional<std::uint64_t> length() const override { return body_->length(); }

 private:
  Loop& loop_;
  Lease lease_;
  LinkLease link_;
  BodyPtr body_;  // dropped first: it lets go of the link
  const RequestInfo& info_;
  BackendMetrics& metrics_;
};

}  // namespace evenkeel
