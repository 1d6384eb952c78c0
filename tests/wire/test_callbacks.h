// The host of connections under test: one handler, and notes of what it is told.
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
  }
  bool draining() const override { return drains; }
  WaiterList& idle_connections() override { return idle; }
  void closed(const FrontendOptions&) override { ++closed_count; }

  std::shared_ptr<Handler> handler;
  WaiterList idle;
  std::vector<std::string> refusals;
  bool drains = false;
  int closed_count = 0;
};

}  // namespace evenkeel
