#include "admin/canaries.h"

namespace evenkeel {

JsonValue canary_document(const PoolSet::Canary& canary, Instant now) {
  const CanaryTrial& trial = *canary.trial;
  const CanaryVerdict verdict = trial.verdict();
  const CanaryTrial::Counts counts = trial.counts(now);
  const bool is_withdrawn = verdict != CanaryVerdict::on_trial;
  JsonValue document;
  document.add("route", canary.route);
  document.add("target", canary.config.target);
  document.add("state", is_withdrawn ? "withdrawn" : "on_trial");
  document.add("reason", is_withdrawn ? JsonValue(to_string(verdict)) : JsonValue());
  document.add("window_seconds", seconds_of(trial.bounds().window));
  document.add("requests", counts.requests);
  document.add("failures", counts.failures);
  document.add("slow", counts.slow);
  return document;
}

JsonValue::List canaries_document(const RuntimeView& view) {
  JsonValue::List documents;
  for (const PoolSet::Canary& canary : view.status->pool_set->canaries())
    documents.push_back(canary_document(canary, view.now));
  return documents;
}

void add_canary_family(MetricsPage& page, const RuntimeView& view) {
  const auto& canaries = view.status->pool_set->canaries();
  if (canaries.empty()) return;
  page.gauges("evenkeel_canary_withdrawn",
              "1 while other targets get the requests of a canary, since its answers left its "
              "bounds.");
  for (const PoolSet::Canary& canary : canaries) {
    page.add({{"route", canary.route}, {"target", canary.config.target}},
             std::uint64_t{canary.trial->has_ended()});
  }
}

}  // namespace evenkeel
