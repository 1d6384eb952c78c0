#include "proxy/forwarded_body.h"

#include <utility>

#include "evenkeel/http/grpc.h"

namespace evenkeel {
namespace {

bool was_served(const RequestOutcome& outcome) {
  return outcome.status > 0 && outcome.status < 400 && !outcome.fault;
}

/// The backend ended a response that had begun.
bool backend_failed(Fault fault) {
  return fault == Fault::backend_closed || fault == Fault::backend_protocol ||
         fault == Fault::idle_timeout || fault == Fault::stream_error;
}

/// A gRPC call that ended with this status, as the HTTP status that stands for it.
AttemptResult classify_grpc(std::uint8_t status) {
  switch (static_cast<GrpcStatus>(status)) {
    case GrpcStatus::ok: return {};
    case GrpcStatus::resource_exhausted: return classify(429);
    case GrpcStatus::unavailable: return classify(503);
    case GrpcStatus::unknown:  // an exception in a Python server
    case GrpcStatus::internal:
    case GrpcStatus::data_loss: return classify(500);
    case GrpcStatus::cancelled:
    case GrpcStatus::deadline_exceeded: return {.outcome = AttemptOutcome::abandoned};
    default: return {.outcome = AttemptOutcome::client_error};
  }
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
    const std::optional<std::uint8_t> grpc_status = info_.outcome.grpc_status;
    if (grpc_status) {
      lease_.backend()->record_outcome(classify_grpc(*grpc_status), loop_.now());
    } else if (load.needs_trial()) {  // otherwise a success changes nothing
      lease_.backend()->record_outcome({}, loop_.now());
    }
  }
}

}  // namespace evenkeel
