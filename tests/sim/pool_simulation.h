// Simulated GPUs behind a pool, in virtual time: a minute takes a few milliseconds.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "evenkeel/base/rng.h"
#include "evenkeel/pool/lease.h"
#include "evenkeel/pool/pool.h"
#include "evenkeel/sim/engine.h"
#include "evenkeel/sim/presets.h"

namespace evenkeel::testing {

/// Seconds since the start of the simulation.
using VirtualSeconds = double;

/// Poisson arrivals of streamed requests.
struct Traffic {
  std::function<double(VirtualSeconds)> rate;  ///< requests per second; at most `most`
  double max_rate = 100;
  std::uint32_t prompt_tokens = 500;  ///< mean; most are shorter, a few much longer
  std::uint32_t output_tokens = 60;   ///< mean
};

inline Traffic steady(double rate) {
  return {.rate = [rate](VirtualSeconds) { return rate; }, .max_rate = rate};
}

/// The outcome of one request.
struct RequestTimeline {
  VirtualSeconds arrived;
  VirtualSeconds first_token;
  VirtualSeconds ended;
  std::size_t backend;
};

/// The quantile `share` of the values; 0 where there are none.
inline double quantile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  const auto at = static_cast<std::size_t>(share * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(at), values.end());
  return values[at];
}

class PoolSimulation {
 public:
  static constexpr Instant start = Instant(std::chrono::hours(12));
  static constexpr VirtualSeconds poll_interval = 0.25;
  static constexpr VirtualSeconds maintenance_interval = 0.1;

  /// A server per speed; `spec.backends` is filled in, the last `standby` of them are standby.
  PoolSimulation(PoolSpec spec, const std::vector<double>& speeds, std::size_t standby = 0,
                 unsigned workers = 4, std::uint64_t seed = 1)
      : rng_(seed) {
    for (std::size_t i = 0; i < speeds.size(); ++i) {
      const std::string id = "10.0.0." + std::to_string(i) + ":8000";
      spec.backends.push_back(
          {.id = id, .address = id, .config = {.standby = i + standby >= speeds.size()}});
      servers_.push_back(std::make_unique<Server>(speeds[i]));
    }
    state_ = PoolState::build(std::move(spec));
    for (unsigned i = 0; i < workers; ++i) pickers_.push_back(state_->new_picker(seed + i));
  }

  PoolState& state() { return *state_; }
  SharedBackend& shared(std::size_t server) { return state_->backends()[server]->shared(); }
  VirtualSeconds now() const { return now_; }
  static Instant at(VirtualSeconds moment) {
    return start + std::chrono::duration_cast<Duration>(std::chrono::duration<double>(moment));
  }

  /// Makes this server `factor` times as slow from now on.
  void slow_down(std::size_t server, double factor) { servers_[server]->slow_factor = factor; }
  /// Sets the GPU memory that the poller reads from a server; NaN until then.
  void set_memory_ratio(std::size_t server, double ratio) {
    servers_[server]->memory_ratio = ratio;
  }
  /// Stops polling and forgets what was polled.
  void disable_polling() { polling_ = false; }
  /// Adds requests of another balancer that run on this server from now on.
  void add_foreign_requests(std::size_t server, std::uint32_t requests) {
    for (std::uint32_t i = 0; i < requests; ++i) {
      submit(server, {.prompt = 200, .output = 4000, .own = false});
    }
  }

  /// Simulates `seconds` of this traffic.
  void run(const Traffic& traffic, VirtualSeconds seconds) {
    const VirtualSeconds end = now_ + seconds;
    VirtualSeconds arrival = next_arrival(traffic, now_);
    while (true) {
      Server* stepping = next_to_step();
      const VirtualSeconds step = stepping != nullptr ? stepping->step_ends : end;
      const VirtualSeconds next = std::min({arrival, step, next_poll_, next_maintenance_, end});
      now_ = next;
      if (next == end) return;
      if (next == next_maintenance_) {
        state_->tick(at(now_));
        next_maintenance_ += maintenance_interval;
      } else if (next == next_poll_) {
        if (polling_) poll();
        next_poll_ += poll_interval;
      } else if (next == step) {
        finish_step(*stepping);
      } else {
        arrive(traffic);
        arrival = next_arrival(traffic, now_);
      }
    }
  }

  /// Over the finished requests.
  const std::vector<RequestTimeline>& timelines() const { return timelines_; }
  double p99_ttft(VirtualSeconds from = 0) const {
    std::vector<double> times;
    for (const RequestTimeline& timeline : timelines_) {
      if (timeline.arrived >= from) times.push_back(timeline.first_token - timeline.arrived);
    }
    return quantile(std::move(times), 0.99);
  }
  double p99_e2e_latency(VirtualSeconds from = 0) const {
    std::vector<double> times;
    for (const RequestTimeline& timeline : timelines_) {
      if (timeline.arrived >= from) times.push_back(timeline.ended - timeline.arrived);
    }
    return quantile(std::move(times), 0.99);
  }
  /// This server's share of all picks since `from`.
  double share(std::size_t server, VirtualSeconds from = 0) const {
    double own = 0;
    double all = 0;
    for (const auto& [moment, picked] : picks_) {
      if (moment < from) continue;
      all += 1;
      own += picked == server;
    }
    return all == 0 ? 0 : own / all;
  }
  /// One server's picks in each span of so many seconds since `from`.
  std::vector<double> picks_per(VirtualSeconds span, std::size_t server,
                                VirtualSeconds from) const {
    std::vector<double> counts(static_cast<std::size_t>((now_ - from) / span), 0.0);
    for (const auto& [moment, picked] : picks_) {
      const auto slot = static_cast<std::size_t>(std::max(0.0, (moment - from) / span));
      if (picked == server && moment >= from && slot < counts.size()) counts[slot] += 1;
    }
    return counts;
  }
  std::uint32_t running(std::size_t server) const {
    return static_cast<std::uint32_t>(servers_[server]->engine.running() +
                                      servers_[server]->engine.waiting());
  }

 private:
  struct RequestLengths {
    std::uint32_t prompt;
    std::uint32_t output;
    bool own = true;
  };
  struct Request : Sequence {
    Lease lease;
    RequestTimeline timeline{};
  };
  struct Server {
    explicit Server(double pace) : speed(pace), engine(find_preset("llama-3-8b-a100")->engine) {}
    double speed;
    double slow_factor = 1;
    double memory_ratio = LoadSample::unknown;
    StepEngine engine;
    std::vector<std::unique_ptr<Request>> requests;
    bool stepping = false;
    VirtualSeconds step_ends = 0;
  };

  VirtualSeconds next_arrival(const Traffic& traffic, VirtualSeconds from) {
    // Thinning: Lewis and Shedler 1979.
    for (VirtualSeconds moment = from;;) {
      moment -= std::log(1 - rng_.unit()) / traffic.max_rate;
      const double rate = traffic.rate(moment);
      if (rate > 0 ? rng_.unit() * traffic.max_rate < rate : moment > from + 1000) return moment;
    }
  }

  /// Exponential with this mean, bounded.
  std::uint32_t tokens(std::uint32_t mean) {
    const double drawn = -std::log(1 - rng_.unit()) * mean;
    return static_cast<std::uint32_t>(std::clamp(drawn, 4.0, 20.0 * mean));
  }

  void arrive(const Traffic& traffic) {
    const Hint hint{.now = at(now_)};
    Picker& picker = *pickers_[rng_.below(static_cast<std::uint32_t>(pickers_.size()))];
    const BackendPtr* chosen = picker.pick(hint);
    if (chosen == nullptr || !(*chosen)->try_acquire(hint.now)) return;
    std::size_t server = 0;
    while (state_->backends()[server] != *chosen) ++server;
    picks_.emplace_back(now_, server);
    submit(server,
           {.prompt = tokens(traffic.prompt_tokens), .output = tokens(traffic.output_tokens)},
           Lease::adopt(*chosen));
  }

  void submit(std::size_t index, const RequestLengths& work, Lease lease = {}) {
    Server& server = *servers_[index];
    auto request = std::make_unique<Request>();
    request->prompt_tokens = work.prompt;
    request->output_tokens = work.output;
    request->lease = std::move(lease);
    request->timeline = {.arrived = now_, .first_token = 0, .ended = 0, .backend = index};
    server.engine.submit(*request);
    server.requests.push_back(std::move(request));
    if (!server.stepping) begin_step(server);
  }

  void begin_step(Server& server) {
    const auto step = server.engine.start_step();
    server.stepping = step.has_value();
    if (step) server.step_ends = now_ + step->seconds * server.slow_factor / server.speed;
  }

  Server* next_to_step() {
    Server* next = nullptr;
    for (const auto& server : servers_) {
      if (!server->stepping) continue;
      if (next == nullptr || server->step_ends < next->step_ends) next = server.get();
    }
    return next;
  }

  void finish_step(Server& server) {
    for (const StepEngine::Token& token : server.engine.finish_step()) {
      auto& request = static_cast<Request&>(*token.sequence);
      const bool own = request.lease.backend() != nullptr;
      const Duration took = at(now_) - at(request.timeline.arrived);
      if (token.index == 0) {
        request.timeline.first_token = now_;
        if (own) request.lease.backend()->stats().record_first_byte(took, at(now_));
      }
      if (!token.last) continue;
      request.timeline.ended = now_;
      if (own) {
        request.lease.backend()->stats().record_served(took, at(now_));
        timelines_.push_back(request.timeline);
      }
      std::erase_if(server.requests, [&](const auto& each) { return each.get() == &request; });
    }
    begin_step(server);
  }

  void poll() {
    for (std::size_t i = 0; i < servers_.size(); ++i) {
      const Server& server = *servers_[i];
      shared(i).signals.publish({.running = static_cast<double>(server.engine.running()),
                                 .waiting = static_cast<double>(server.engine.waiting()),
                                 .kv_cache_ratio = server.engine.kv_cache_ratio(),
                                 .gpu_utilization_ratio = server.stepping ? 1.0 : 0.0,
                                 .gpu_memory_used_bytes = 80e9 * server.memory_ratio,
                                 .gpu_memory_total_bytes = 80e9},
                                at(now_), shared(i).slots.in_flight());
    }
  }

  Rng rng_;
  std::vector<std::unique_ptr<Server>> servers_;
  std::shared_ptr<PoolState> state_;
  std::vector<std::unique_ptr<Picker>> pickers_;
  std::vector<RequestTimeline> timelines_;
  std::vector<std::pair<VirtualSeconds, std::size_t>> picks_;
  VirtualSeconds now_ = 0;
  VirtualSeconds next_poll_ = poll_interval;
  VirtualSeconds next_maintenance_ = maintenance_interval;
  bool polling_ = true;
};

}  // namespace evenkeel::testing
