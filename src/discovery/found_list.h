// What one source has found, and how it fares.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "evenkeel/base/loop.h"
#include "evenkeel/config/config.h"
#include "evenkeel/upstream/discovery_status.h"

namespace evenkeel {

/// The last good list of a source. Thread: the loop's.
class FoundList {
 public:
  using Backends = std::vector<BackendConfig>;
  static constexpr std::size_t max_backends = 4096;  ///< of a pool; the others are left out
  /// How long after a list that is held the next one is to be read.
  static constexpr Duration second_look = std::chrono::seconds(2);

  /// `changed`: called when the list has changed, and when the first one is there.
  FoundList(Loop& loop, std::string pool, std::function<void()> changed);

  /// Takes a list that follows from what single backends do.
  void take(Backends backends);
  /// Takes a whole list. False: it is held, since it has lost more than half of the backends; the
  /// next one is taken, whatever it has.
  bool offer(Backends backends);
  /// The source says that nothing has changed.
  void note_good();
  /// The source could not be read; what was found stays.
  void note_failure(const std::string& why);
  /// What the source says is no good as it is; empty: it is.
  void complain(std::string why);
  /// Begins with what another source of the same backends has found.
  void inherit(const FoundList& other);

  const std::optional<Backends>& backends() const { return backends_; }
  const std::string& pool() const { return status_.pool; }
  DiscoveryStatus status() const;

 private:
  std::string what_stays() const;

  Loop& loop_;
  std::function<void()> changed_;
  std::optional<Backends> backends_;  // sorted by address; nothing: no list yet
  DiscoveryStatus status_;            // its problem: the failure that is not over
  std::string complaint_;
  bool holds_ = false;
  Instant warned_at_{};
};

}  // namespace evenkeel
