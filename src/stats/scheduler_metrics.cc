#include "scheduler_metrics.h"

#include <algorithm>

namespace evenkeel {
namespace {

template <class Each>
void each_pool(const std::vector<PoolSnapshot>& pools, Each each) {
  for (const PoolSnapshot& pool : pools) {
    if (pool.scheduler) each(Labels{{"pool", pool.name}}, *pool.scheduler);
  }
}

struct Family {
  std::string_view name;
  std::string_view help;
  double (*value)(const SchedulerSnapshot&);
};

constexpr Family counters[] = {
    {"evenkeel_scheduler_placed_total", "Requests that the pool's scheduler gave a backend.",
     [](const SchedulerSnapshot& each) { return static_cast<double>(each.placed); }},
    {"evenkeel_scheduler_refused_total",
     "Requests that the pool's scheduler refused, since their first token would have come too "
     "late.",
     [](const SchedulerSnapshot& each) { return static_cast<double>(each.refused); }},
    {"evenkeel_scheduler_first_tokens_total",
     "Requests that the scheduler placed and whose first token was seen.",
     [](const SchedulerSnapshot& each) { return static_cast<double>(each.first_tokens); }},
    {"evenkeel_scheduler_predicted_first_token_seconds_total",
     "Sum of the predicted times from when a request was sent to its first token, of requests "
     "whose first token was seen.",
     [](const SchedulerSnapshot& each) { return each.predicted_ttft_sum; }},
    {"evenkeel_scheduler_first_token_seconds_total",
     "Sum of the actual times from when a request was sent to its first token, of requests whose "
     "first token was seen.",
     [](const SchedulerSnapshot& each) { return each.ttft_sum; }},
    {"evenkeel_scheduler_first_token_error_seconds_total",
     "Sum of the absolute errors of the predicted times to the first token, of requests whose "
     "first token was seen.",
     [](const SchedulerSnapshot& each) { return each.ttft_error_sum; }},
    {"evenkeel_scheduler_demand_prefill_seconds_total",
     "Predicted time of engines for the prompts of requests that were placed or refused.",
     [](const SchedulerSnapshot& each) { return each.prefill_sum; }},
    {"evenkeel_scheduler_demand_decode_seconds_total",
     "Predicted time for which the outputs of requests that were placed or refused are decoded, "
     "each as one stream among others.",
     [](const SchedulerSnapshot& each) { return each.decode_sum; }},
};

template <class Each>
void each_shadow(const std::vector<PoolSnapshot>& pools, Each each) {
  each_pool(pools, [&](Labels labels, const SchedulerSnapshot& scheduler) {
    if (!scheduler.shadow) return;
    labels.add({"picker", scheduler.shadow->picker});
    each(labels, *scheduler.shadow);
  });
}

void add_shadows(MetricsPage& page, const std::vector<PoolSnapshot>& pools) {
  const auto has_shadow = [](const PoolSnapshot& pool) {
    return pool.scheduler && pool.scheduler->shadow;
  };
  if (std::none_of(pools.begin(), pools.end(), has_shadow)) return;
  page.counters("evenkeel_shadow_choices_total",
                "Choices of a pool's shadow picker: the scheduler's at that time, another one, or "
                "a backend that takes no requests.");
  each_shadow(pools, [&](const Labels& labels, const ShadowSnapshot& shadow) {
    page.add(labels, {"result", "same"}, shadow.agreed);
    page.add(labels, {"result", "other"}, shadow.compared - shadow.agreed);
    page.add(labels, {"result", "unavailable"}, shadow.unavailable);
  });
  page.counters("evenkeel_shadow_regret_seconds_total",
                "By how much the other choices cost more than the scheduler's, where they do.");
  each_shadow(pools, [&](const Labels& labels, const ShadowSnapshot& shadow) {
    page.add(labels, shadow.regret_sum);
  });
  page.counters("evenkeel_shadow_gain_seconds_total",
                "By how much the other choices cost less than the scheduler's, where they do.");
  each_shadow(pools, [&](const Labels& labels, const ShadowSnapshot& shadow) {
    page.add(labels, shadow.gain_sum);
  });
}

}  // namespace

void add_scheduler_metrics(MetricsPage& page, const std::vector<PoolSnapshot>& pools) {
  const auto schedules = [](const PoolSnapshot& pool) { return pool.scheduler.has_value(); };
  if (std::none_of(pools.begin(), pools.end(), schedules)) return;
  for (const Family& family : counters) {
    page.counters(family.name, family.help);
    each_pool(pools, [&](const Labels& labels, const SchedulerSnapshot& scheduler) {
      page.add(labels, family.value(scheduler));
    });
  }
  page.gauges("evenkeel_scheduler_index_bytes",
              "Memory for what the backends' prefix caches are believed to hold.");
  each_pool(pools, [&](const Labels& labels, const SchedulerSnapshot& scheduler) {
    page.add(labels, scheduler.index_bytes);
  });
  add_shadows(page, pools);
}

}  // namespace evenkeel
