#include "proxy/explanation.h"

namespace evenkeel {

bool wants_explanation(const Request& request, bool names_backends) {
  const Asker asker = request.info.identity.asker;
  return asker == Asker::proxy || (asker == Asker::client && names_backends);
}

void add_explanation(const PoolState& pool, const Lease& lease, const Request& request,
                     Response& response) {
  std::string text;
  if (lease.placed() != nullptr) {
    const auto explanation = lease.placed()->explanation();
    if (explanation) text = compact_text(*explanation);
  } else {
    const auto pick = pool.picks().last(request.info.identity.request_id);
    if (pick) text = compact_text(*pick, pool.config().picker.name);
  }
  if (!text.empty()) response.fields.add("x-evenkeel-decision", response.fields.keep(text));
}

void explain_refusal(const PoolState& pool, Request& request) {
  InferenceInfo& inference = *request.info.inference;
  const auto last =
      pool.scheduled()->last_decision(request.info.identity.request_id, inference.number);
  if (!last) return;
  // Other requests may have the same id.
  using State = Decision::State;
  const State state = last->decision.state;
  if (state != State::refused && state != State::left) return;
  inference.refusal = request.fields.keep(compact_text(*last));
}

}  // namespace evenkeel
