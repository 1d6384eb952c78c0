#include "evenkeel/upstream/health_record.h"

namespace evenkeel {

std::string_view to_string(CheckResult result) {
  switch (result) {
    case CheckResult::passed: return "passed";
    case CheckResult::refused: return "refused";
    case CheckResult::unreachable: return "unreachable";
    case CheckResult::timeout: return "timeout";
    case CheckResult::broken: return "broken";
    case CheckResult::not_ready: return "not_ready";
    case CheckResult::error: return "error";
    case CheckResult::model_missing: return "model_missing";
    case CheckResult::no_token: return "no_token";
    case CheckResult::slow: return "slow";
  }
  return "error";
}

std::string_view to_string(HealthState state) {
  switch (state) {
    case HealthState::unchecked: return "unchecked";
    case HealthState::starting: return "starting";
    case HealthState::up: return "up";
    case HealthState::down: return "down";
  }
  return "down";
}

}  // namespace evenkeel
