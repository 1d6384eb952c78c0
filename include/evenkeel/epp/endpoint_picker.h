// Tells other proxies where to send their requests: Envoy's external processing over gRPC.
#pragma once

#include <memory>

#include "evenkeel/base/loop.h"
#include "evenkeel/config/config.h"
#include "evenkeel/http/message.h"
#include "evenkeel/wire/frontend.h"

namespace evenkeel {

/// Answers the gRPC calls of data planes: `envoy.service.ext_proc.v3.ExternalProcessor/Process`,
/// and those of `grpc.health.v1.Health`; no other request. A stream of the former carries one
/// request, which the plan serves as if it had come from its client, but for its last step: the
/// data plane takes it to the backend (ProcessStream).
///
/// Thread: one worker's.
class EndpointPicker final : public Handler {
 public:
  /// `config`: of the plan, which owns it. `listener` and `connections`, of the listener that data
  /// planes connect to, outlive it.
  EndpointPicker(Loop& loop, std::shared_ptr<Handler> plan, const Config& config,
                 const ListenerConfig& listener, const FrontendCallbacks& connections)
      : loop_(loop),
        plan_(std::move(plan)),
        config_(config),
        listener_(listener),
        connections_(connections) {}

  Task<Result<Response>> handle(Request& request) override;

 private:
  Loop& loop_;
  const std::shared_ptr<Handler> plan_;
  const Config& config_;
  const ListenerConfig& listener_;
  const FrontendCallbacks& connections_;
};

}  // namespace evenkeel
