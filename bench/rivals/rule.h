// What the rules of other routers have in common. They are re-implemented from their documentation
// and run in `evenkeel replay`'s virtual time; no other program contains them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "bench/rivals/shadow_index.h"
#include "evenkeel/base/rng.h"
#include "evenkeel/replay/dispatcher.h"
#include "evenkeel/replay/replay.h"

namespace evenkeel::bench {

/// A rule that sends each request as it arrives. It sees what a router sees: requests, first
/// tokens, ends, and reports that are as old as the last poll.
class Rule : public ImmediateDispatcher {
 public:
  Rule(const ReplayOptions& options, RequestSink& sink);

  void arrived(ReplayedRequest& request, Instant now) override;
  void first_token(ReplayedRequest& request, Instant now) override;
  void finished(ReplayedRequest& request, Instant now) override;
  void polled(std::uint32_t backend, const LoadSample& report, Instant now) override;

 protected:
  /// A backend as the router sees it.
  struct Seen {
    std::uint32_t prefilling = 0;  ///< own requests without a first token
    std::uint32_t decoding = 0;    ///< own requests with one
    LoadSample report{.running = 0, .waiting = 0, .kv_cache_ratio = 0};

    std::uint32_t in_flight() const { return prefilling + decoding; }
  };

  virtual std::uint32_t choose(const ReplayedRequest& request, Instant now) = 0;
  /// Events of a request; `sent` comes before the counts in `seen` change, the others after.
  virtual void sent(const ReplayedRequest&, std::uint32_t /*backend*/, Instant) {}
  virtual void began(const ReplayedRequest&, Instant) {}
  virtual void ended(const ReplayedRequest&, Instant) {}

  /// Numbers the request by its ticket. Called once for each.
  void admit(ReplayedRequest& request);
  void send(ReplayedRequest& request, std::uint32_t backend, Instant now);
  std::uint32_t backends() const { return static_cast<std::uint32_t>(seen_.size()); }
  const Seen& seen(std::uint32_t backend) const { return seen_[backend]; }
  const ReplayOptions& options() const { return options_; }
  const RequestSink& sink() const { return sink_; }
  Rng& rng() { return rng_; }
  /// The backend of the least cost, one at random if several have it. REQUIRES: one cost for each.
  std::uint32_t least(std::span<const double> costs);
  /// The same among some backends. `costs` are of all.
  std::uint32_t least(std::span<const double> costs, std::span<const std::uint32_t> among);

 private:
  const ReplayOptions& options_;
  RequestSink& sink_;
  std::vector<Seen> seen_;
  std::vector<std::uint32_t> everyone_;
  Rng rng_;
  std::uint32_t admitted_ = 0;
};

/// A rule that goes by prefixes, as far as it knows of them from what it sent.
class PrefixRule : public Rule {
 public:
  PrefixRule(const ReplayOptions& options, RequestSink& sink);

 protected:
  void sent(const ReplayedRequest& request, std::uint32_t backend, Instant now) override;
  /// Believed to be cached: leading blocks of a prompt, for each backend.
  std::vector<std::uint32_t> matches(const ReplayedRequest& request) const;
  /// Of the prompt, at most all of it.
  static double tokens_of(std::uint32_t blocks, const ReplayedRequest& request);
  const ShadowIndex& index() const { return index_; }

 private:
  ShadowIndex index_;
};

/// A number for each request, such as what its prefill was estimated at.
class PerRequest {
 public:
  double& operator[](const ReplayedRequest& request) {
    if (values_.size() <= request.ticket) values_.resize(request.ticket + std::size_t{1});
    return values_[request.ticket];
  }

 private:
  std::vector<double> values_;
};

}  // namespace evenkeel::bench
