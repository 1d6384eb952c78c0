// Keeps watch over every backend: whether it can serve, what it runs, how busy it is.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "evenkeel/base/loop.h"
#include "evenkeel/base/task.h"
#include "evenkeel/config/config.h"
#include "evenkeel/fleet/health_checker.h"
#include "evenkeel/proxy/plan.h"

namespace evenkeel {

class MetricsPoller;

/// What is known of one backend.
struct Watched {
  std::string pool;
  std::string backend;  ///< its id
  std::string engine;   ///< of the file; of `auto`, what was detected, "auto" until then
  std::vector<std::string> models;  ///< that it says it serves; empty: unknown
  HealthRecord health;
  const MetricsPoller* poller = nullptr;  ///< null: nobody reads its metrics
};

/// Asks all backends of all pools, on the control loop, and tells their `Load`s. None is asked two
/// things of a kind at a time; none waits for another.
///
/// Thread: the control loop's.
class Lookout {
 public:
  Lookout(Loop& loop, std::uint64_t seed);
  Lookout(const Lookout&) = delete;
  Lookout& operator=(const Lookout&) = delete;
  ~Lookout();

  /// Watches the backends of this fleet from now on, which was built from this configuration: at
  /// the start, and after every change. Those that are as they were go on undisturbed; those that
  /// are new get no requests until their first check; those that are gone are forgotten.
  void follow(const Config& config, const Fleet& fleet);

  /// Until every backend has had its first result, or the deadline.
  Task<void> first_round(Instant deadline);

  /// Null: there is none. Valid until the next `follow`.
  const Watched* find(std::string_view pool, std::string_view backend) const;

 private:
  class Post;  // where one backend is watched from

  Loop& loop_;
  std::map<std::pair<std::string, std::string>, std::unique_ptr<Post>, std::less<>> posts_;
};

}  // namespace evenkeel
