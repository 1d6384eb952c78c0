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
     "Requests that it refused, since their first token would have come too late.",
     [](const SchedulerSnapshot& each) { return static_cast<double>(each.refused); }},
    {"evenkeel_scheduler_first_tokens_total",
     "Placed requests whose first token was seen: the next three are of these.",
     [](const SchedulerSnapshot& each) { return static_cast<double>(each.first_tokens); }},
    {"evenkeel_scheduler_predicted_first_token_seconds_total",
     "Predicted times from when a request was sent to its first token.",
     [](const SchedulerSnapshot& each) { return each.predicted_ttft_sum; }},
    {"evenkeel_scheduler_first_token_seconds_total", "The same times as they were.",
     [](const SchedulerSnapshot& each) { return each.ttft_sum; }},
    {"evenkeel_scheduler_first_token_error_seconds_total",
     "Differences of the two, without their signs.",
     [](const SchedulerSnapshot& each) { return each.ttft_error_sum; }},
    {"evenkeel_scheduler_demand_prefill_seconds_total",
     "Predicted time of engines for the prompts of requests that were placed or refused.",
     [](const SchedulerSnapshot& each) { return each.prefill_sum; }},
    {"evenkeel_scheduler_demand_decode_seconds_total",
     "Predicted time for which their outputs are decoded, each one stream among others.",
     [](const SchedulerSnapshot& each) { return each.decode_sum; }},
};

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
}

}  // namespace evenkeel
