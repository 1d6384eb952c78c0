#include "replay/report.h"

#include <algorithm>
#include <cstddef>

namespace evenkeel {
namespace {

constexpr std::size_t warmup_share = 10;  // one of so many requests is left out, the first ones
constexpr double slo_of_unloaded = 3;     // a TTFT within so many unloaded prefills is good
constexpr double least_unloaded = 0.25;   // seconds, where a slowdown is computed

double percentile(std::vector<double>& values, double share) {
  if (values.empty()) return 0;
  const auto index = std::min(values.size() - 1,
                              static_cast<std::size_t>(share * static_cast<double>(values.size())));
  const auto nth = values.begin() + static_cast<std::ptrdiff_t>(index);
  std::nth_element(values.begin(), nth, values.end());
  return *nth;
}

/// What the served requests had.
struct Samples {
  std::vector<double> ttft;
  std::vector<double> slowdown;
  std::vector<double> tpot;
  std::vector<double> e2e;
  double hit_tokens = 0;
  double prompt_tokens = 0;
  std::size_t good = 0;

  void add(const ReplayedRequest& request, const ReplayOptions& options) {
    const double unloaded = unloaded_prefill_seconds(options.engine, request.prompt_tokens);
    const double first = seconds_of(*request.first_token_at - request.due);
    ttft.push_back(first);
    slowdown.push_back(first / std::max(least_unloaded, unloaded));
    hit_tokens += request.cached_tokens();
    prompt_tokens += request.prompt_tokens;
    if (!request.finished_at) return;
    e2e.push_back(seconds_of(*request.finished_at - request.due));
    double per_token = 0;
    if (request.output_tokens > 1) {
      per_token =
          seconds_of(*request.finished_at - *request.first_token_at) / (request.output_tokens - 1);
      tpot.push_back(per_token);
    }
    const double ttft_slo = std::max(seconds_of(options.slo.ttft), slo_of_unloaded * unloaded);
    if (first <= ttft_slo && per_token <= seconds_of(options.slo.tpot)) ++good;
  }
};

void describe_engines(ReplayRow& row, const std::vector<std::unique_ptr<VirtualEngine>>& engines,
                      Duration took) {
  double busy = 0;
  double highest = 0;
  double sum = 0;
  for (const auto& each : engines) {
    busy += seconds_of(each->busy);
    const double work = static_cast<double>(each->prefill_tokens) / each->speed;
    highest = std::max(highest, work);
    sum += work;
  }
  const auto count = static_cast<double>(engines.size());
  row.utilization_ratio = busy / count / std::max(seconds_of(took), 1e-9);
  row.imbalance = sum > 0 ? highest / (sum / count) : 1;
}

}  // namespace

double unloaded_prefill_seconds(const EngineSpec& engine, std::uint32_t prompt_tokens) {
  const StepCost& cost = engine.cost;
  double seconds = 0;
  for (std::uint32_t before = 0; before < prompt_tokens;) {
    const std::uint32_t tokens = std::min(engine.max_batched_tokens, prompt_tokens - before);
    const std::uint32_t after = before + tokens;
    seconds += std::max(cost.weights, tokens * cost.per_token) + cost.overhead +
               tokens * cost.per_prefill_token + after * cost.per_prefill_context_token +
               tokens * (before + tokens * 0.5) * cost.per_attention_pair;
    before = after;
  }
  return seconds;
}

ReplayRow report(const ReplayOptions& options, std::string_view picker,
                 const std::vector<std::unique_ptr<ReplayedRequest>>& requests,
                 const std::vector<std::unique_ptr<VirtualEngine>>& engines, Duration took) {
  ReplayRow row{.picker = std::string(picker), .backends = options.backends};
  Samples samples;
  for (std::size_t i = requests.size() / warmup_share; i < requests.size(); ++i) {
    const ReplayedRequest& request = *requests[i];
    ++row.requests;
    if (request.refused) ++row.shed;
    if (!request.refused && !request.finished_at) ++row.unfinished;
    if (request.first_token_at) samples.add(request, options);
  }
  row.goodput_ratio = static_cast<double>(samples.good) / static_cast<double>(row.requests);
  row.ttft_p50 = percentile(samples.ttft, 0.5);
  row.ttft_p90 = percentile(samples.ttft, 0.9);
  row.ttft_p99 = percentile(samples.ttft, 0.99);
  row.slowdown_p90 = percentile(samples.slowdown, 0.9);
  row.slowdown_p99 = percentile(samples.slowdown, 0.99);
  row.tpot_p50 = percentile(samples.tpot, 0.5);
  row.tpot_p99 = percentile(samples.tpot, 0.99);
  row.e2e_p50 = percentile(samples.e2e, 0.5);
  row.e2e_p99 = percentile(samples.e2e, 0.99);
  row.hit_ratio = samples.hit_tokens / std::max(1.0, samples.prompt_tokens);
  describe_engines(row, engines, took);
  return row;
}

}  // namespace evenkeel
