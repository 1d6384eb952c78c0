// The callbacks of connections under test: one handler, and a record of refusals.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "evenkeel/wire/frontend.h"

namespace evenkeel {

class TestCallbacks final : public FrontendCallbacks {
 public:
  std::shared_ptr<Handler> plan() override { return handler; }
  void refused(const Refusal& refusal) override {
    refusals.push_back(std::to_string(refusal.status) + " " + to_string(refusal.fault) + " " +
                       std::string(refusal.method) + " " + std::string(refusal.path));
    refusal_details.emplace_back(refusal.detail);
    refused_ids.emplace_back(refusal.info.identity.request_id);
    refused_hosts.emplace_back(refusal.host);
    refused_bytes_out.push_back(refusal.info.outcome.bytes_out);
    refused_times = refusal.info.timings;
  }
  bool draining() const override { return drains; }
  IdleList& idle_connections(ClientNumber) override { return idle; }
  void closed(const ListenerConfig&, ClientNumber) override { ++closed_count; }

  std::shared_ptr<Handler> handler;
  IdleList idle;
  std::vector<std::string> refusals;
  std::vector<std::string> refusal_details;
  std::vector<std::string> refused_ids;
  std::vector<std::string> refused_hosts;
  std::vector<std::uint64_t> refused_bytes_out;
  RequestTimings refused_times;  // of the last one
  bool drains = false;
  int closed_count = 0;
};

}  // namespace evenkeel
