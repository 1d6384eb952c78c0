// What the health checks of one backend have found.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "evenkeel/base/clock.h"

namespace evenkeel {

/// How one check ended.
enum class CheckResult : std::uint8_t {
  passed,
  refused,        ///< the connection was refused
  unreachable,    ///< no connection, or no TLS session, in time
  timeout,        ///< connected, but no complete response in time
  broken,         ///< the connection closed early, or the response could not be parsed
  not_ready,      ///< the server says that it cannot serve
  error,          ///< any other response that a server in order would not give
  model_missing,  ///< the server does not serve a model that its pool lists
  no_token,       ///< the server lists the model, but the model generates nothing
  slow,           ///< passed, but took longer than the configured limit
};

inline constexpr std::size_t check_result_count = static_cast<std::size_t>(CheckResult::slow) + 1;

/// The stable word of a result, such as "model_missing".
std::string_view to_string(CheckResult result);

enum class HealthState : std::uint8_t {
  unchecked,  ///< no checks: only failed connections take the backend out of rotation
  starting,   ///< not seen ready yet: not checked, not listening yet, or loading its model
  up,
  down,
};

/// The stable word of a state, such as "starting".
std::string_view to_string(HealthState state);

/// Names of models, shared so that a copy of a record is cheap. Null: unknown.
using ModelList = std::shared_ptr<const std::vector<std::string>>;

struct HealthRecord {
  HealthState state = HealthState::unchecked;
  std::chrono::system_clock::time_point since;             ///< when the backend entered that state
  std::string reason;                                      ///< why it is not up; empty if it is
  std::optional<CheckResult> last;                         ///< result of the last check
  Duration took{};                                         ///< duration of the last check
  std::array<std::uint64_t, check_result_count> checks{};  ///< how many, by result
  /// Checks that this process could not make, such as for want of a descriptor.
  std::uint64_t blocked_locally = 0;
  ModelList models;  ///< the models of the last check that listed them
};

}  // namespace evenkeel
