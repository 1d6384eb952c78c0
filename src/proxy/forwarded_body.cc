#include "proxy/forwarded_body.h"

#include <utility>

namespace evenkeel {
namespace {

bool was_served(const RequestOutcome& outcome) {
  return outcome.status > 0 && outcome.status < 400 && !outcome.fault;
}

/// The backend ended a response that had begun.
bool backend_failed(Fault fault) {
  return fault == Fault::backend_closed || fault == Fault::backend_protocol ||
         fault == Fault::idle_timeout;
}

}  // namespace

ForwardedBody::ForwardedBody(Loop& loop, Lease lease, LinkLease link, BodyPtr body,
                             const RequestInfo& info, BackendMetrics& metrics)
    : loop_(loop),
      lease_(std::move(lease)),
      link_(std::move(link)),
      body_(std::move(body)),
      info_(info),
      metrics_(metrics) {}

ForwardedBody::~ForwardedBody() {
  const Duration took = loop_.now() - request_end(info_.timings);
  Load& load = lease_.backend()->load();
  load.record_total(took);
  if (was_served(info_.outcome)) load.record_served(took);
  metrics_.latency.observe(took);
  const std::optional<Fault> fault = info_.outcome.fault;
  if (fault && backend_failed(*fault)) {
    load.count_error(*fault);
    lease_.backend()->record_outcome({.outcome = AttemptOutcome::failed, .fault = fault},
                                     loop_.now());
  } else if (was_served(info_.outcome)) {
    lease_.backend()->record_outcome({}, loop_.now());
  }
}

}  // namespace evenkeel
