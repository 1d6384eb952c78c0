// The last requests to models and those that failed, for people who look.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>
#include <type_traits>
#include <vector>

#include "evenkeel/base/attempt_list.h"
#include "evenkeel/stats/sequence_lock.h"

namespace evenkeel {

/// Text of limited length; of a longer one the beginning, up to a whole character of UTF-8.
template <std::size_t capacity>
class ShortText {
 public:
  ShortText() = default;
  ShortText(std::string_view text) {  // NOLINT(google-explicit-constructor)
    std::size_t size = std::min(text.size(), capacity);
    while (size > 0 && size < text.size() && (text[size] & 0xc0) == 0x80) --size;
    if (size > 0) std::memcpy(bytes_.data(), text.data(), size);
    size_ = static_cast<std::uint8_t>(size);
  }
  ShortText(const char* text)  // NOLINT(google-explicit-constructor)
      : ShortText(std::string_view(text)) {}
  std::string_view view() const { return {bytes_.data(), std::min<std::size_t>(size_, capacity)}; }

 private:
  static_assert(capacity < 256);
  std::uint8_t size_ = 0;
  std::array<char, capacity> bytes_;  // NOLINT(*-member-init): written before it is read
};

/// A request that has ended. Times are in microseconds, and -1 where there is none; so are counts
/// that the engine did not give.
struct RecentRequest {
  struct Attempt {
    ShortText<47> backend;
    ShortText<23> outcome;
    std::int64_t connect = 0;
  };
  static constexpr std::size_t max_request_id = 47;
  static constexpr std::size_t max_attempts = 3;  ///< that are kept: the last ones
  /// What a request asked for that has failed, and why it has.
  struct Failure {
    ShortText<15> method;
    ShortText<63> host;
    ShortText<95> path;     ///< with its query, less credentials
    ShortText<175> detail;  ///< for people; empty: nothing more is known than the reason
  };

  std::int64_t started = 0;  ///< since the epoch, of its first byte
  ShortText<max_request_id> request_id;
  ShortText<39> trace_id;  ///< empty: it was not traced
  ShortText<63> model;
  ShortText<15> task;
  ShortText<63> route;
  ShortText<47> pool;
  ShortText<63> tenant;  ///< empty: none
  ShortText<31> reason;  ///< the fault that ended it; empty: none
  ShortText<23> finish_reason;
  std::int32_t status = 0;
  bool stream = false;
  std::uint8_t attempt_count = 0;  ///< of all; the last `max_attempts` of them are kept
  std::int64_t max_tokens = -1;
  std::uint64_t prompt_bytes = 0;
  std::uint64_t estimated_prompt_tokens = 0;
  std::int64_t prompt_tokens = -1;
  std::int64_t completion_tokens = -1;
  std::int64_t cached_tokens = -1;
  std::int64_t duration = 0;
  std::int64_t waited = 0;
  std::int64_t first_token = -1;
  std::int64_t per_output_token = -1;
  std::int64_t max_gap = -1;
  bool has_failed = false;                       ///< true if `failure` says more
  std::array<Attempt, max_attempts> attempts{};  ///< those beyond the count are not recorded
  Failure failure{};                             ///< last: not recorded without need

  std::int64_t ended() const { return started + duration; }
};

/// The last requests of one worker. Recording one copies about a kilobyte and takes no lock. A
/// reader that meets a request while it is being written leaves it out.
///
/// Thread: `record` on one thread, the others on any.
class RecentRequests {
 public:
  static constexpr std::size_t capacity = 256;

  RecentRequests() = default;
  RecentRequests(const RecentRequests&) = delete;
  RecentRequests& operator=(const RecentRequests&) = delete;
  ~RecentRequests();

  void record(const RecentRequest& request);
  void append_to(std::vector<RecentRequest>& requests) const;
  /// Returns the one of this id that has ended last.
  std::optional<RecentRequest> find(std::string_view request_id) const;

 private:
  static_assert(std::is_trivially_copyable_v<RecentRequest>);
  static_assert(sizeof(RecentRequest) % sizeof(std::uint64_t) == 0);
  using Slot = SequenceLocked<sizeof(RecentRequest) / sizeof(std::uint64_t)>;
  using Slots = std::array<Slot, capacity>;

  std::atomic<Slots*> slots_{nullptr};  // made with the first request
  std::size_t next_ = 0;
};

}  // namespace evenkeel
