// How pickers have placed some requests: what is kept for people who ask.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "evenkeel/base/clock.h"
#include "evenkeel/base/load_sample.h"
#include "evenkeel/picker/hint.h"

namespace evenkeel {

class Backend;
class Picker;
class PoolState;

/// A backend as it was when a request was placed.
struct PickCandidate {
  std::string backend;  ///< its id
  /// "open"; why it gets nothing: "out" of rotation, "full", "tried" before; or why it gets
  /// something only if all others are too: "avoided".
  std::string_view state;
  std::uint32_t in_flight = 0;
  std::uint32_t weight = 1;
  LoadSample polled{};         ///< what its engine has last reported
  std::optional<double> cost;  ///< nothing: the picker has not looked at it, or compares no costs
};

/// Why a request was placed as it was.
struct PickRecord {
  static constexpr std::size_t max_candidates = 16;  ///< that are kept: the cheapest ones

  std::string request_id;
  Instant time{};
  std::string backend;  ///< id of the chosen one
  /// "picked" by the picker, of the request's "session", or "waited" for: the first one with a free
  /// slot.
  std::string_view how;
  Duration waited{};
  std::size_t considered = 0;  ///< backends that it could go to, these and others
  std::vector<PickCandidate> candidates{};
};

/// Describes the choice that a picker has just made, before the request takes a slot.
PickRecord describe_pick(const PoolState& pool, const Hint& hint, Picker& picker,
                         const Backend& chosen);

/// Describes where a request went without a pick, once it has its slot: `how` is "session" or
/// "waited".
PickRecord describe_placement(const PoolState& pool, const Hint& hint, const Backend& chosen,
                              std::string_view how);

/// The record on one line, as a dictionary of RFC 8941: for a response's field
/// `x-evenkeel-decision`.
std::string compact_text(const PickRecord& record, std::string_view picker);

/// The last records of a pool. Thread: any.
class PickLog {
 public:
  static constexpr std::size_t capacity = 256;

  void add(PickRecord record);
  /// Returns those of this request, the first one first.
  std::vector<PickRecord> find(std::string_view request_id) const;
  /// Returns the last one of this request.
  std::optional<PickRecord> last(std::string_view request_id) const;

 private:
  mutable std::mutex mutex_;
  std::deque<PickRecord> records_;
};

}  // namespace evenkeel
