// A day of traffic in virtual time against replicas that come and go: rules that scale by the
// utilization of engines, by their queues, and by predicted work (docs/scaling.md). Prints a line
// of JSON for each rule. The requests are placed by `expected-time` with all of them.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/flags.h"
#include "evenkeel/base/rng.h"
#include "evenkeel/replay/replay.h"
#include "evenkeel/scaling/replica_planner.h"
#include "evenkeel/scheduler/scheduler.h"
#include "evenkeel/sim/presets.h"

namespace evenkeel::bench {
namespace {

using std::chrono::seconds;

Duration duration_of(double value) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(value));
}

/// What a rule may look at, each second.
struct FleetSample {
  std::uint32_t serving = 0;
  std::uint32_t replicas = 0;  ///< with those that start
  double busy_ratio = 0;       ///< of those that serve, in which any request runs
  PoolSample pool;
};

/// Returns how many replicas there are to be.
using Rule = std::function<std::uint32_t(const FleetSample&, Instant)>;

/// The Kubernetes HorizontalPodAutoscaler with its defaults, around a ratio of metric to target.
class Hpa {
 public:
  explicit Hpa(std::uint32_t max) : max_(max) {}

  std::uint32_t scale(double wanted, std::uint32_t replicas, Instant now) {
    constexpr Duration period = seconds(15);
    constexpr Duration stabilization = seconds(300);
    if (now - evaluated_ < period) return replicas;
    evaluated_ = now;
    const double tolerated = 0.1 * replicas;
    if (std::abs(wanted - replicas) <= tolerated) wanted = replicas;
    const double most = std::max(2.0 * replicas, replicas + 4.0);
    const auto next = static_cast<std::uint32_t>(
        std::clamp(std::ceil(wanted - 1e-9), 1.0, std::min<double>(most, max_)));
    past_.emplace_back(now, next);
    while (past_.front().first < now - stabilization) past_.pop_front();
    std::uint32_t highest = 0;
    for (const auto& [at, each] : past_) highest = std::max(highest, each);
    return std::max(next, std::min(highest, replicas));
  }

 private:
  std::uint32_t max_;
  Instant evaluated_{};
  std::deque<std::pair<Instant, std::uint32_t>> past_;
};

Rule by_utilization(std::uint32_t max) {
  auto hpa = std::make_shared<Hpa>(max);
  auto ratio = std::make_shared<double>(0);
  return [=](const FleetSample& fleet, Instant now) {
    *ratio += (fleet.busy_ratio - *ratio) / 15;
    return hpa->scale(fleet.serving * *ratio / 0.6, fleet.replicas, now);
  };
}

/// As vLLM's production stack has it: five requests that wait for each replica.
Rule by_queue(std::uint32_t max) {
  auto hpa = std::make_shared<Hpa>(max);
  return [=](const FleetSample& fleet, Instant now) {
    return hpa->scale(static_cast<double>(fleet.pool.waiting) / 5, fleet.replicas, now);
  };
}

Rule by_work(std::uint32_t max, Duration start_time, double target) {
  auto planner = std::make_shared<ReplicaPlanner>();
  const ScalingConfig config{
      .min = 1,
      .max = max,
      .target = target,
      .start_time = std::chrono::duration_cast<std::chrono::milliseconds>(start_time)};
  return [=](const FleetSample& fleet, Instant now) {
    return planner->update(fleet.pool, config, now).desired;
  };
}

Rule fixed(std::uint32_t count) {
  return [count](const FleetSample&, Instant) { return count; };
}

/// A fleet that a rule scales. The scheduler places the requests.
class ScaledFleet final : public Dispatcher {
 public:
  ScaledFleet(const ReplayOptions& options, RequestSink& sink, Rule rule, Duration start_time,
              std::uint32_t first, double* replica_seconds)
      : options_(options),
        sink_(sink),
        rule_(std::move(rule)),
        start_time_(start_time),
        replica_seconds_(replica_seconds),
        scheduler_({.slots = options.backends, .config = {.slo = options.slo}}),
        replicas_(options.backends) {
    for (std::uint32_t slot = 0; slot < first; ++slot) serve(slot);
  }

  void arrived(ReplayedRequest& request, Instant now) override {
    if (!first_) first_ = last_ = now;
    request.ticket = scheduler_.arrive({.prompt_tokens = request.prompt_tokens}, now);
    if (by_ticket_.size() <= request.ticket) by_ticket_.resize(request.ticket + 1);
    by_ticket_[request.ticket] = &request;
    ++work_.arrived_total;
    decide(now);
  }
  void first_token(ReplayedRequest& request, Instant now) override {
    scheduler_.first_token(request.ticket, now);
  }
  void token(ReplayedRequest& request, std::uint32_t generated, Duration gap,
             Instant now) override {
    if (generated % Scheduler::sampled_tokens == 0)
      scheduler_.token(request.ticket, generated, gap, now);
  }
  void finished(ReplayedRequest& request, Instant now) override {
    scheduler_.finished(request.ticket, {.output_tokens = request.output_tokens}, now);
    --replicas_[request.backend].in_flight;
  }
  void polled(std::uint32_t backend, const LoadSample& report, Instant) override {
    replicas_[backend].report = report;
  }
  void decide(Instant now) override {
    if (first_ && now - last_ >= seconds(1)) scale(now);
    for (const Scheduler::Placement& placement : scheduler_.place(now)) {
      work_.work_sum += placement.work;
      ++work_.priced_total;
      ReplayedRequest& request = *by_ticket_[placement.ticket];
      if (placement.backend == Scheduler::no_backend) {
        sink_.refuse(request);
        continue;
      }
      ++replicas_[placement.backend].in_flight;
      sink_.send(request, placement.backend);
    }
  }
  Instant next_decision(Instant now) const override { return scheduler_.next_pass(now); }

 private:
  enum class Stage : std::uint8_t { gone, starts, serves, ends };
  struct Replica {
    Stage stage = Stage::gone;
    Instant serves_at{};
    std::uint32_t in_flight = 0;
    LoadSample report;
  };

  void serve(std::uint32_t slot) {
    const EngineSpec& engine = options_.engine;
    scheduler_.add_backend(slot,
                           {.identity = mix(slot + 1),
                            .kv_tokens = std::uint64_t{engine.kv_blocks - 1} * engine.block_tokens,
                            .step_tokens = engine.max_batched_tokens});
    replicas_[slot].stage = Stage::serves;
  }

  FleetSample look() {
    FleetSample fleet;
    double busy = 0;
    double kv = 0;
    for (Replica& each : replicas_) {
      fleet.replicas += each.stage == Stage::starts || each.stage == Stage::serves;
      if (each.stage != Stage::serves) continue;
      ++fleet.serving;
      busy += each.in_flight > 0;
      kv += std::isnan(each.report.kv_cache_ratio) ? 0 : each.report.kv_cache_ratio;
      fleet.pool.in_flight += each.in_flight;
      if (!std::isnan(each.report.waiting))
        fleet.pool.waiting += static_cast<std::uint64_t>(each.report.waiting);
    }
    fleet.busy_ratio = fleet.serving > 0 ? busy / fleet.serving : 0;
    fleet.pool.waiting += scheduler_.waiting();
    fleet.pool.replicas = fleet.serving;
    fleet.pool.load = kv;
    work_.capacity = scheduler_.capacity();
    fleet.pool.work = work_;
    return fleet;
  }

  void scale(Instant now) {
    for (std::uint32_t slot = 0; slot < replicas_.size(); ++slot) {
      Replica& each = replicas_[slot];
      if (each.stage != Stage::gone) *replica_seconds_ += seconds_of(now - last_);
      if (each.stage == Stage::starts && each.serves_at <= now) serve(slot);
      if (each.stage == Stage::ends && each.in_flight == 0) {
        scheduler_.remove_backend(slot);
        each.stage = Stage::gone;
      }
    }
    last_ = now;
    FleetSample fleet = look();
    const std::uint32_t wanted = rule_(fleet, now);
    for (std::uint32_t slot = 0; slot < replicas_.size() && fleet.replicas < wanted; ++slot) {
      if (replicas_[slot].stage != Stage::gone) continue;
      replicas_[slot].stage = Stage::starts;
      replicas_[slot].serves_at = now + start_time_;
      ++fleet.replicas;
    }
    // Those that have not started go first, then the last ones.
    for (const Stage stage : {Stage::starts, Stage::serves}) {
      for (std::size_t slot = replicas_.size(); slot-- > 0 && fleet.replicas > wanted;) {
        if (replicas_[slot].stage != stage) continue;
        if (stage == Stage::serves) {
          scheduler_.set_state(static_cast<std::uint32_t>(slot), SlotState::out);
        }
        replicas_[slot].stage = stage == Stage::starts ? Stage::gone : Stage::ends;
        --fleet.replicas;
      }
    }
  }

  const ReplayOptions& options_;
  RequestSink& sink_;
  Rule rule_;
  const Duration start_time_;
  double* replica_seconds_;
  Scheduler scheduler_;
  std::vector<Replica> replicas_;
  std::vector<ReplayedRequest*> by_ticket_;
  PredictedWork work_;
  std::optional<Instant> first_;
  Instant last_{};
};

/// A day whose rate follows a sine from a tenth of the peak to the peak, compressed to `hours`; and
/// four bursts of `burst` times the rate, two minutes long.
Trace diurnal_trace(double hours, double peak, double burst, std::uint64_t seed) {
  constexpr double pi = 3.14159265358979323846;
  Rng rng(seed);
  Trace trace;
  const double end = hours * 3600;
  const auto lognormal = [&rng](double median, double sigma) {
    const double u = std::max(rng.unit(), 1e-12);
    return median * std::exp(sigma * std::sqrt(-2 * std::log(u)) * std::cos(2 * pi * rng.unit()));
  };
  for (double now = 0; now < end;) {
    now += -std::log(std::max(rng.unit(), 1e-12)) / (burst * peak);
    const double day = 0.55 - 0.45 * std::cos(2 * pi * now / end);
    const bool bursts =
        std::fmod(now, end / 4) > end / 8 && std::fmod(now, end / 4) < end / 8 + 120;
    if (rng.unit() > day * (bursts ? 1.0 : 1 / burst)) continue;
    trace.rows.push_back(
        {.due = duration_of(now),
         .prompt_tokens = static_cast<std::uint32_t>(std::clamp(lognormal(700, 1), 16.0, 16e3)),
         .output_tokens = static_cast<std::uint32_t>(std::clamp(lognormal(180, .8), 4.0, 2e3))});
  }
  return trace;
}

int run(int argument_count, char** arguments) {
  Flags flags(argument_count, arguments);
  const std::string preset = flags.text("--preset", "llama-3-70b-a100-tp4");
  if (find_preset(preset) == nullptr) exit_with_usage_error("unknown preset " + preset);
  const double hours = flags.real("--hours", 6);
  const double peak = flags.real("--peak", 10);
  const double burst = flags.real("--burst", 1);
  const Duration start_time = duration_of(flags.real("--start-time", 180));
  const double target = flags.real("--target", 0.8);
  const auto seed = flags.number("--seed", 1);
  const auto most = static_cast<std::uint32_t>(flags.number("--max", 24));
  const auto first = static_cast<std::uint32_t>(flags.number("--first", 2));
  const auto fixed_count = static_cast<std::uint32_t>(flags.number("--fixed", 8));
  const std::vector<std::string> wanted = flags.all("--rule");
  flags.reject_unknown();
  const Trace trace = diurnal_trace(hours, peak, burst, seed);
  const std::vector<std::pair<std::string, Rule>> rules = {
      {"fixed", fixed(fixed_count)},
      {"utilization", by_utilization(most)},
      {"queue", by_queue(most)},
      {"work", by_work(most, start_time, target)}};
  for (const auto& [name, rule] : rules) {
    if (!wanted.empty() && std::ranges::find(wanted, name) == wanted.end()) continue;
    ReplayOptions options{.engine = find_preset(preset)->engine, .backends = most};
    options.seed = seed;
    double replica_seconds = 0;
    const std::uint32_t begins = name == "fixed" ? fixed_count : first;
    const ReplayRow row =
        replay(trace, options, name, [&](const ReplayOptions& of_replay, RequestSink& sink) {
          return std::make_unique<ScaledFleet>(of_replay, sink, rule, start_time, begins,
                                               &replica_seconds);
        });
    std::printf(R"({"rule": "%s", "requests": %zu, "goodput_ratio": %.4f, "replica_hours": %.2f, )"
                R"("ttft_p50": %.3f, "ttft_p99": %.3f, "tpot_p99": %.4f, "unfinished": %zu})"
                "\n",
                name.c_str(), row.requests, row.goodput_ratio, replica_seconds / 3600, row.ttft_p50,
                row.ttft_p99, row.tpot_p99, row.unfinished);
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace
}  // namespace evenkeel::bench

int main(int argc, char** argv) { return evenkeel::bench::run(argc, argv); }
