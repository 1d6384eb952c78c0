#include "replay/scheduler_dispatcher.h"

#include "evenkeel/base/rng.h"

namespace evenkeel {
namespace {

SchedulerOptions scheduler_options(const ReplayOptions& options) {
  return {.slots = options.backends, .config = {.slo = options.slo, .shed = options.shed}};
}

}  // namespace

SchedulerDispatcher::SchedulerDispatcher(const ReplayOptions& options, RequestSink& sink)
    : scheduler_(scheduler_options(options)), sink_(sink) {
  const EngineSpec& engine = options.engine;
  for (std::uint32_t slot = 0; slot < options.backends; ++slot) {
    scheduler_.add_backend(slot,
                           {.identity = mix(slot + 1),
                            .kv_tokens = std::uint64_t{engine.kv_blocks - 1} * engine.block_tokens,
                            .step_tokens = engine.max_batched_tokens});
  }
}

void SchedulerDispatcher::arrived(ReplayedRequest& request, Instant now) {
  const auto home = sessions_.find(request.session);
  request.ticket =
      scheduler_.arrive({.prompt_tokens = request.prompt_tokens,
                         .prefix_blocks = request.blocks,
                         .tokens_per_block = trace_block_tokens,
                         .streams = request.streams,
                         .tenant = request.tenant,
                         .preferred = home == sessions_.end() ? Arrival::any_slot : home->second},
                        now);
  if (by_ticket_.size() <= request.ticket) by_ticket_.resize(request.ticket + 1);
  by_ticket_[request.ticket] = &request;
  decide(now);
}

void SchedulerDispatcher::first_token(ReplayedRequest& request, Instant now) {
  if (request.streams) scheduler_.first_token(request.ticket, now);
}

void SchedulerDispatcher::token(ReplayedRequest& request, std::uint32_t generated, Duration gap,
                                Instant now) {
  if (request.streams && generated % Scheduler::sampled_tokens == 0) {
    scheduler_.token(request.ticket, generated, gap, now);
  }
}

void SchedulerDispatcher::finished(ReplayedRequest& request, Instant now) {
  scheduler_.finished(request.ticket, {.output_tokens = request.output_tokens}, now);
}

void SchedulerDispatcher::polled(std::uint32_t backend, const LoadSample& report, Instant now) {
  scheduler_.polled(backend, report, now);
}

void SchedulerDispatcher::decide(Instant now) {
  for (const Scheduler::Placement& placement : scheduler_.place(now)) {
    ReplayedRequest& request = *by_ticket_[placement.ticket];
    if (placement.backend == Scheduler::no_backend) {
      sink_.refuse(request);
    } else {
      if (request.session != 0) sessions_[request.session] = placement.backend;
      sink_.send(request, placement.backend);
    }
  }
}

}  // namespace evenkeel
