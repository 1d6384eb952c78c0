#include "bench/rivals/dynamo.h"

#include <algorithm>
#include <tuple>

namespace evenkeel::bench {
namespace {

constexpr double block_tokens = 16;

}  // namespace

Dynamo::Dynamo(const ReplayOptions& options, RequestSink& sink, const DynamoOptions& rule)
    : Rule(options, sink), rule_(rule), backlogs_(options.backends) {}

double Dynamo::uncached(const ReplayedRequest& request, std::uint32_t backend) const {
  const double cached = sink().cached_tokens(request, backend);
  return std::max(1.0, request.prompt_tokens - cached);
}

double Dynamo::least_uncached(const ReplayedRequest& request) const {
  double fewest = std::numeric_limits<double>::infinity();
  for (std::uint32_t i = 0; i < backends(); ++i) fewest = std::min(fewest, uncached(request, i));
  return fewest;
}

std::uint32_t Dynamo::choose(const ReplayedRequest& request, Instant) {
  std::vector<double> costs;
  for (std::uint32_t i = 0; i < backends(); ++i) {
    const double prefill = backlogs_[i].prefill_tokens + uncached(request, i);
    const double decode = backlogs_[i].prompt_tokens + request.prompt_tokens;
    costs.push_back((rule_.overlap_weight * prefill + decode) / block_tokens);
  }
  return least(costs);
}

bool Dynamo::may_send() const {
  const double limit = rule_.queue_steps * options().engine.max_batched_tokens;
  return std::any_of(backlogs_.begin(), backlogs_.end(),
                     [limit](const Backlog& each) { return each.prefill_tokens <= limit; });
}

void Dynamo::arrived(ReplayedRequest& request, Instant now) {
  admit(request);
  waiting_.push_back(&request);
  decide(now);
}

void Dynamo::decide(Instant now) {
  if (waiting_.empty() || !may_send()) return;
  // The ticket keeps the order of arrival where they are alike.
  std::vector<std::tuple<double, std::uint32_t, ReplayedRequest*>> order;
  for (ReplayedRequest* each : waiting_) {
    order.emplace_back(least_uncached(*each), each->ticket, each);
  }
  std::sort(order.begin(), order.end());
  waiting_.clear();
  for (const auto& [tokens, ticket, request] : order) {
    if (may_send()) {
      send(*request, choose(*request, now), now);
    } else {
      waiting_.push_back(request);
    }
  }
}

void Dynamo::sent(const ReplayedRequest& request, std::uint32_t backend, Instant) {
  counted_[request] = uncached(request, backend);
  backlogs_[backend].prefill_tokens += counted_[request];
  backlogs_[backend].prompt_tokens += request.prompt_tokens;
}

void Dynamo::began(const ReplayedRequest& request, Instant) {
  backlogs_[request.backend].prefill_tokens -= counted_[request];
}

void Dynamo::ended(const ReplayedRequest& request, Instant) {
  backlogs_[request.backend].prompt_tokens -= request.prompt_tokens;
}

}  // namespace evenkeel::bench
