// The keys that encrypt session tickets: a new one every hour; old ones stay valid for twelve more.
#pragma once

#include <array>
#include <functional>
#include <mutex>
#include <optional>
#include <vector>

#include "evenkeel/base/clock.h"

namespace evenkeel {

/// Thread: any. A handshake takes the lock once or twice, for some nanoseconds.
class TicketKeys {
 public:
  static constexpr Duration rotation_interval = std::chrono::hours(1);
  static constexpr Duration lifetime = std::chrono::hours(13);  ///< from its first use

  struct Key {
    std::array<unsigned char, 16> name;
    std::array<unsigned char, 32> encryption;
    std::array<unsigned char, 32> authentication;
    Instant created;
  };

  explicit TicketKeys(std::function<Instant()> clock) : clock_(std::move(clock)) {}

  /// The key to encrypt with; nothing if the system has no randomness.
  std::optional<Key> current();
  struct Found {
    Key key;
    bool old;  ///< the ticket should be renewed
  };
  /// The key of that name, unless it has expired.
  std::optional<Found> find(const unsigned char* name);

 private:
  bool rotate();

  std::function<Instant()> clock_;
  std::mutex mutex_;
  std::vector<Key> keys_;  // newest first
};

}  // namespace evenkeel
