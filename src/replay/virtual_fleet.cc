#include "replay/virtual_fleet.h"

#include <algorithm>

namespace evenkeel {
namespace {

constexpr Duration drain_limit = std::chrono::minutes(10);
constexpr double max_slowdown = 1e3;  // of several together: times stay within what fits

Duration seconds(double value) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(value));
}

/// The request whose sequence this is.
ReplayedRequest& owner_of(Sequence& sequence) { return static_cast<ReplayedRequest&>(sequence); }

}  // namespace

VirtualFleet::VirtualFleet(const ReplayOptions& options,
                           std::vector<std::unique_ptr<ReplayedRequest>>& requests,
                           const DispatcherMaker& make_dispatcher)
    : options_(options), requests_(requests) {
  Rng rng(options.seed);
  for (std::uint32_t i = 0; i < options.backends; ++i) {
    const double speed = options.speeds.empty() ? 1 : options.speeds[i % options.speeds.size()];
    engines_.push_back(std::make_unique<VirtualEngine>(options.engine, speed));
  }
  dispatcher_ = make_dispatcher(options, *this);
  now_ = requests_.front()->due;
  for (std::uint32_t i = 0; i < options.backends; ++i) {
    schedule(now_ + seconds(rng.unit() * seconds_of(options.poll_interval)), Kind::poll, i);
  }
  for (std::uint32_t i = 0; i < options.slowdowns.size(); ++i) {
    if (options.slowdowns[i].backend >= options.backends) continue;
    schedule(now_ + options.slowdowns[i].at, Kind::slowdown, i);
  }
}

Instant VirtualFleet::run() {
  const Instant last = requests_.back()->due + drain_limit;
  while (now_ <= last && (arrivals_ < requests_.size() || open_ > 0)) {
    if (arrivals_ < requests_.size() &&
        (events_.empty() || requests_[arrivals_]->due <= events_.top().at)) {
      ReplayedRequest& request = *requests_[arrivals_++];
      now_ = request.due;
      ++open_;
      dispatcher_->arrived(request, now_);
      plan_decision();
    } else {
      const Event event = events_.top();
      events_.pop();
      now_ = event.at;
      handle(event);
    }
  }
  return now_;
}

void VirtualFleet::schedule(Instant at, Kind kind, std::uint32_t index) {
  events_.push({.at = at, .number = event_count_++, .kind = kind, .index = index});
}

void VirtualFleet::handle(const Event& event) {
  switch (event.kind) {
    case Kind::step: return end_step(event.index);
    case Kind::poll: return poll(event.index);
    case Kind::slowdown: {
      const EngineSlowdown& slowdown = options_.slowdowns[event.index];
      double& slowed = engines_[slowdown.backend]->slowdown;
      slowed = std::clamp(slowed * slowdown.factor, 1 / max_slowdown, max_slowdown);
      return;
    }
    case Kind::decision:
      decision_planned_ = false;
      dispatcher_->decide(now_);
      plan_decision();
      return;
  }
}

void VirtualFleet::plan_decision() {
  const Instant next = dispatcher_->next_decision(now_);
  if (decision_planned_ || next == never) return;
  decision_planned_ = true;
  schedule(next, Kind::decision, 0);
}

void VirtualFleet::send(ReplayedRequest& request, std::uint32_t backend) {
  request.backend = backend;
  request.sent_at = now_;
  StepEngine& engine = engines_[backend]->engine;
  engine.submit(request);
  if (!engine.stepping()) begin_step(backend);
}

void VirtualFleet::refuse(ReplayedRequest& request) {
  request.refused = true;
  --open_;
}

std::uint32_t VirtualFleet::cached_tokens(const ReplayedRequest& request,
                                          std::uint32_t backend) const {
  return engines_[backend]->engine.cached_tokens(request);
}

void VirtualFleet::begin_step(std::uint32_t backend) {
  VirtualEngine& server = *engines_[backend];
  const auto step = server.engine.start_step();
  if (!step) return;
  const Duration took = seconds(step->seconds * server.slowdown / server.speed);
  server.busy += took;
  server.prefill_tokens += step->prefill_tokens;
  schedule(now_ + took, Kind::step, backend);
}

void VirtualFleet::end_step(std::uint32_t backend) {
  bool changed = false;
  for (const StepEngine::Token& token : engines_[backend]->engine.finish_step()) {
    ReplayedRequest& request = owner_of(*token.sequence);
    if (!request.first_token_at) {
      request.first_token_at = now_;
      dispatcher_->first_token(request, now_);
      changed = true;
    } else {
      dispatcher_->token(request, token.index + 1, now_ - request.last_token_at, now_);
    }
    request.last_token_at = now_;
    if (token.last) {
      request.finished_at = now_;
      dispatcher_->finished(request, now_);
      --open_;
      changed = true;
    }
  }
  begin_step(backend);
  if (changed) dispatcher_->decide(now_);
  plan_decision();
}

void VirtualFleet::poll(std::uint32_t backend) {
  const StepEngine& engine = engines_[backend]->engine;
  dispatcher_->polled(backend,
                      {.running = static_cast<double>(engine.running()),
                       .waiting = static_cast<double>(engine.waiting()),
                       .kv_cache_ratio = engine.kv_cache_ratio()},
                      now_);
  dispatcher_->decide(now_);
  plan_decision();
  schedule(now_ + options_.poll_interval, Kind::poll, backend);
}

}  // namespace evenkeel
