// What the scheduler makes of hard traffic, request by request.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "evenkeel/base/hash.h"
#include "evenkeel/base/rng.h"
#include "evenkeel/replay/replay.h"
#include "evenkeel/sim/presets.h"
#include "replay/report.h"
#include "replay/scheduler_dispatcher.h"

namespace evenkeel::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// What became of a request. Times in seconds after the first one was due.
struct Served {
  double due = 0;
  double sent = 0;
  double first_token = 0;
  std::uint32_t backend = 0;
  std::uint32_t prompt_tokens = 0;
  std::uint64_t tenant = 0;
};

/// The scheduler, and a note of each request that it has served. It sees load reports or does not.
class Watched final : public Dispatcher {
 public:
  Watched(const ReplayOptions& options, RequestSink& sink, bool sees_reports,
          std::vector<Served>& served)
      : scheduler_(options, sink), sees_reports_(sees_reports), served_(served) {}

  void arrived(ReplayedRequest& request, Instant now) override {
    if (!begin_) begin_ = now;
    scheduler_.arrived(request, now);
  }
  void first_token(ReplayedRequest& request, Instant now) override {
    scheduler_.first_token(request, now);
  }
  void token(ReplayedRequest& request, std::uint32_t generated, Duration gap,
             Instant now) override {
    scheduler_.token(request, generated, gap, now);
  }
  void finished(ReplayedRequest& request, Instant now) override {
    served_.push_back({.due = seconds_of(request.due - *begin_),
                       .sent = seconds_of(request.sent_at - *begin_),
                       .first_token = seconds_of(*request.first_token_at - *begin_),
                       .backend = request.backend,
                       .prompt_tokens = request.prompt_tokens,
                       .tenant = request.tenant});
    scheduler_.finished(request, now);
  }
  void polled(std::uint32_t backend, const LoadSample& report, Instant now) override {
    if (sees_reports_) scheduler_.polled(backend, report, now);
  }
  void decide(Instant now) override { scheduler_.decide(now); }
  Instant next_decision(Instant now) const override { return scheduler_.next_decision(now); }

 private:
  SchedulerDispatcher scheduler_;
  bool sees_reports_;
  std::vector<Served>& served_;
  std::optional<Instant> begin_;
};

std::vector<Served> served_of(const Trace& trace, const ReplayOptions& options,
                              bool sees_reports = true) {
  std::vector<Served> served;
  replay(trace, options, "expected-time",
         [&](const ReplayOptions& of_replay, RequestSink& sink) -> std::unique_ptr<Dispatcher> {
           return std::make_unique<Watched>(of_replay, sink, sees_reports, served);
         });
  return served;
}

ReplayOptions engines(std::uint32_t count) {
  return {.engine = find_preset("reference")->engine, .backends = count};
}

struct Flow {
  const char* tenant = "";
  double per_second = 1;
  std::uint32_t prompt_tokens = 1000;  ///< half to one and a half times as many
  std::uint32_t output_tokens = 50;
  double first = 0;  ///< seconds
  double last = 60;
  std::uint64_t first_block = 0;  ///< 0: no prefix is known
};

/// Requests without common prefixes, at random times.
Trace trace_of(const std::vector<Flow>& flows, std::uint64_t seed = 6) {
  Trace trace;
  Rng rng(seed);
  for (const Flow& flow : flows) {
    for (double at = flow.first; at < flow.last;) {
      trace.rows.push_back(
          {.due = std::chrono::duration_cast<Duration>(std::chrono::duration<double>(at)),
           .prompt_tokens = flow.prompt_tokens / 2 + rng.below(flow.prompt_tokens),
           .output_tokens = flow.output_tokens,
           .block_ids = flow.first_block == 0 ? std::vector<std::uint64_t>{}
                                              : std::vector<std::uint64_t>{flow.first_block},
           .tenant = flow.tenant});
      at += -std::log(1 - rng.unit()) / flow.per_second;
    }
  }
  std::sort(trace.rows.begin(), trace.rows.end(),
            [](const TraceRow& a, const TraceRow& b) { return a.due < b.due; });
  return trace;
}

/// Of the requests that were sent in these seconds.
double share_of_backend(const std::vector<Served>& served, std::uint32_t backend, double from,
                        double to) {
  double all = 0;
  double own = 0;
  for (const Served& each : served) {
    if (each.sent < from || each.sent >= to) continue;
    ++all;
    own += each.backend == backend ? 1 : 0;
  }
  return own / all;
}

double ttft_p99(const std::vector<Served>& served, std::uint64_t not_tenant) {
  std::vector<double> ttft;
  for (const Served& each : served) {
    if (each.tenant != not_tenant && each.due > 5) ttft.push_back(each.first_token - each.due);
  }
  std::sort(ttft.begin(), ttft.end());
  return ttft[ttft.size() * 99 / 100];
}

TEST(ExpectedTime, ABackendThatSlowsFourTimesLosesTwoThirdsOfItsShareWithinThreeSeconds) {
  const Trace trace = trace_of({{.per_second = 20, .prompt_tokens = 3000}});
  ReplayOptions options = engines(4);
  options.slowdowns = {{.backend = 0, .factor = 4, .at = seconds(30)}};

  const auto served = served_of(trace, options);

  EXPECT_NEAR(share_of_backend(served, 0, 10, 30), 0.25, 0.08);
  EXPECT_LT(share_of_backend(served, 0, 33, 60), 0.25 / 3);
}

TEST(ExpectedTime, ABurstOfThirtyIsSpreadEvenly) {
  Trace trace = trace_of({{.per_second = 5, .prompt_tokens = 2000}});
  for (int i = 0; i < 30; ++i) {
    trace.rows.push_back({.due = seconds(70), .prompt_tokens = 2000, .output_tokens = 50});
  }

  const auto served = served_of(trace, engines(4));

  for (const Served& at : served) {
    std::map<std::uint32_t, double> queues;
    double all = 0;
    for (const Served& each : served) {
      if (each.sent > at.sent || each.first_token <= at.sent) continue;
      ++queues[each.backend];
      ++all;
    }
    for (const auto& [backend, queue] : queues) {
      EXPECT_LE(queue, all / 4 + 2) << backend << " after " << at.sent << " s";
    }
  }
}

TEST(ExpectedTime, TheOnlySenderNeedsNoLoadReports) {
  const Trace trace = trace_of({{.per_second = 20, .prompt_tokens = 3000}});

  const auto seen = served_of(trace, engines(4), true);
  const auto unseen = served_of(trace, engines(4), false);

  ASSERT_EQ(seen.size(), unseen.size());
  for (std::size_t i = 0; i < seen.size(); ++i) {
    ASSERT_EQ(seen[i].backend, unseen[i].backend) << i;
    ASSERT_EQ(seen[i].first_token, unseen[i].first_token) << i;
  }
}

TEST(ExpectedTime, TenantsThatAllWaitGetEqualShares) {
  // Two engines compute 1.6 s of prompts in a second: each tenant alone has more than its fifth.
  std::vector<Flow> flows = {{.tenant = "a", .per_second = 20, .prompt_tokens = 2000},
                             {.tenant = "b", .per_second = 15, .prompt_tokens = 3000},
                             {.tenant = "c", .per_second = 8, .prompt_tokens = 6000},
                             {.tenant = "d", .per_second = 3, .prompt_tokens = 15'000},
                             {.tenant = "e", .per_second = 20, .prompt_tokens = 2500}};
  for (Flow& flow : flows) flow.last = 30;
  const Trace trace = trace_of(flows);
  const ReplayOptions options = engines(2);

  std::map<std::uint64_t, double> gpu_seconds;
  for (const Served& each : served_of(trace, options)) {
    if (each.sent < 5 || each.sent > 25) continue;
    gpu_seconds[each.tenant] += unloaded_prefill_seconds(options.engine, each.prompt_tokens);
  }

  double sum = 0;
  double squares = 0;
  for (const auto& [tenant, each] : gpu_seconds) {
    sum += each;
    squares += each * each;
  }
  ASSERT_EQ(gpu_seconds.size(), 5u);
  EXPECT_GE(sum * sum / (5 * squares), 0.95) << "Jain's index";
}

TEST(ExpectedTime, AFloodOfOneTenantDoublesTheTtftOfOthersAtMost) {
  std::vector<Flow> light;
  for (const char* tenant : {"a", "b", "c", "d", "e", "f", "g", "h"}) {
    light.push_back({.tenant = tenant, .per_second = 0.5, .prompt_tokens = 6000});
  }
  std::vector<Flow> flooded = light;
  flooded.push_back({.tenant = "flood", .per_second = 40, .prompt_tokens = 6000});
  const std::uint64_t flood = hash_of(std::string_view("flood"));

  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    const double alone = ttft_p99(served_of(trace_of(light, seed), engines(8)), flood);
    const auto served = served_of(trace_of(flooded, seed), engines(8));

    EXPECT_LT(ttft_p99(served, flood), 2 * alone) << seed;
    EXPECT_GT(served.back().first_token, 70) << "it is a flood";
  }
}

// Tool calls: the second token waits for a long prompt that was sent meanwhile. A target that
// nothing can miss takes the price of streams away.
TEST(ExpectedTime, ThePriceOfStreamsProtectsShortOutputsBesideLongPrompts) {
  const Trace trace = trace_of(
      {{.per_second = 60, .prompt_tokens = 500, .output_tokens = 2, .last = 200, .first_block = 1},
       {.per_second = 2,
        .prompt_tokens = 8000,
        .output_tokens = 200,
        .last = 200,
        .first_block = 2}});
  ReplayOptions options = engines(4);

  const ReplayRow priced = replay(trace, options, "expected-time");
  options.slo.tpot = std::chrono::hours(24);
  const ReplayRow unpriced = replay(trace, options, "expected-time");

  EXPECT_LT(priced.tpot_p99, 0.1);
  EXPECT_LT(priced.tpot_p99, 0.5 * unpriced.tpot_p99);
}

}  // namespace
}  // namespace evenkeel::testing
