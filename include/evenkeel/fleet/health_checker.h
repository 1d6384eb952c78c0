// Health checks of one backend: asked again and again whether it can serve, and told from its
// answers whether it gets requests.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "evenkeel/balance/backend.h"
#include "evenkeel/base/loop.h"
#include "evenkeel/base/rng.h"
#include "evenkeel/base/task.h"
#include "evenkeel/config/config.h"
#include "evenkeel/fleet/inquirer.h"

namespace evenkeel {

/// How one check ended.
enum class CheckResult : std::uint8_t {
  passed,
  refused,        ///< nobody listens there
  unreachable,    ///< no connection, or no TLS, in time
  timeout,        ///< connected, and no whole answer in time
  broken,         ///< the connection ended, or what came was no answer
  loading,        ///< it says that it is not ready yet
  error,          ///< any other answer that is not the one of a server that can serve
  model_missing,  ///< it does not serve a model that it should
  no_token,       ///< it lists the model, and the model does not answer
  slow,           ///< it passed, but took longer than its limit
};

inline constexpr std::size_t check_result_count = static_cast<std::size_t>(CheckResult::slow) + 1;

/// The stable word of a result, such as "model_missing".
std::string_view word_of(CheckResult result);

enum class HealthState : std::uint8_t {
  unchecked,  ///< nobody asks: what counts is whether it can be connected
  starting,   ///< was not seen ready yet: nothing is known, nobody listens yet, or it is loading
  up,
  down,
};

/// What the checks of a backend have found.
struct HealthRecord {
  HealthState state = HealthState::unchecked;
  std::chrono::system_clock::time_point since;  ///< when it entered that state
  std::string reason;                           ///< for people: why it is not up; empty if it is
  std::optional<CheckResult> last;              ///< of the last check
  Duration took{};                              ///< of the last check
  std::array<std::uint64_t, check_result_count> checks{};  ///< by result
  std::vector<std::string> models;  ///< that it listed when it was last asked; empty: never asked
};

/// What is asked of a server, and what its answers have to be.
struct HealthQuestion {
  HealthConfig config;
  std::string engine = "generic";
  std::vector<std::string> models;                    ///< of its pool
  BackendProtocol protocol = BackendProtocol::http1;  ///< in which its pool speaks to it
  bool operator==(const HealthQuestion&) const = default;
};

/// Whether there is anything to ask such a server: not so where nobody says how it is to be asked.
bool is_checked(const HealthQuestion& question);

}  // namespace evenkeel
