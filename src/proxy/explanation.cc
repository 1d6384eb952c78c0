#include "proxy/explanation.h"

namespace evenkeel {

bool wants_explanation(const Request& request, bool names_backends) {
  constexpr std::string_view name = "x-evenkeel-explain";
  for (const Field& field : request.fields) {
    if (field.name_size != name.size() || !equals_ignore_case(field.name(), name)) [[likely]]
      continue;
    return field.value() == "proxy" || names_backends;
  }
  return false;
}

void add_explanation(const PlacedRequest& placed, Response& response) {
  const auto explanation = placed.explanation();
  if (!explanation) return;
  response.fields.add("x-evenkeel-decision", response.fields.keep(compact_text(*explanation)));
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
