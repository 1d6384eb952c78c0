#include "proxy/request_copy.h"

#include <memory>
#include <string_view>

#include "proxy/kept_plans.h"

namespace evenkeel {

void copy_request(const Request& from, Request& to) {
  Fields& kept = to.fields;
  for (const Field& field : from.fields) kept.add_copy(field);
  to.method = kept.keep(from.method);
  to.scheme = kept.keep(from.scheme);
  to.authority = kept.keep(from.authority);
  to.path = kept.keep(from.path);
  to.path_never_indexed = from.path_never_indexed;
  to.wants_trailers = from.wants_trailers;
  to.info.identity = from.info.identity;
  RequestIdentity& identity = to.info.identity;
  identity.reserved_fields = nullptr;    // there are no trailers
  identity.certificate_names = nullptr;  // its tenant is known
  for (std::string_view* const view :
       {&identity.listener, &identity.client, &identity.peer, &identity.request_id,
        &identity.protocol, &identity.certificate_subject, &identity.certificate_hash,
        &identity.route, &identity.pool, &identity.tenant.name, &identity.tenant.cache_salt})
    *view = kept.keep(*view);
  to.info.timings.started = from.info.timings.started;
  to.info.timings.head_received = from.info.timings.head_received;
  to.info.plan = from.info.plan;
  if (from.info.trace != nullptr) {
    to.info.trace = std::make_unique<RequestTrace>(*from.info.trace);
    kept.remove(FieldId::traceparent);
    kept.add("traceparent", to.info.trace->traceparent(), FieldId::traceparent);
  }
  if (from.info.inference == nullptr) return;
  auto inference = std::make_unique<InferenceInfo>();
  inference->request = from.info.inference->request;
  inference->places = from.info.inference->places;
  inference->body_is_held = true;
  to.info.inference = std::move(inference);
}

void adopt_outcome(RequestInfo& info, const RequestInfo& of_copy) {
  if (of_copy.plan != nullptr && of_copy.plan != info.plan) keep_too(info.plan, of_copy.plan);
  RequestOutcome& outcome = info.outcome;
  outcome.backend = of_copy.outcome.backend;
  outcome.backend_index = of_copy.outcome.backend_index;
  outcome.attempts = of_copy.outcome.attempts;
  outcome.stream_reset = of_copy.outcome.stream_reset;
  RequestTimings& timings = info.timings;
  const RequestTimings& sent = of_copy.timings;
  if (sent.head_sent >= timings.head_received) {
    timings.waited = sent.waited;
    timings.queued = sent.queued;
    timings.connected = sent.connected;
    timings.retried = sent.retried;
    timings.head_sent = sent.head_sent;
  } else if (sent.head_sent != Instant{}) {
    timings.head_sent = timings.head_received;  // it came later
  }
  if (info.trace != nullptr && of_copy.trace != nullptr) info.trace->picker = of_copy.trace->picker;
}

}  // namespace evenkeel
