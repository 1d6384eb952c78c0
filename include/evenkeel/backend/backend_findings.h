// What the control thread has found out about a backend.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

namespace evenkeel {

/// What a backend may take longer for than the others of its pool.
enum class SlowPart : std::uint8_t {
  per_token,    ///< between two tokens of a stream
  first_token,  ///< from the end of a request to the beginning of its response
  response,     ///< to its last byte; of pools without streams
};

inline constexpr int slow_part_count = static_cast<int>(SlowPart::response) + 1;

/// The stable word of a part, such as "per_token".
const char* to_string(SlowPart part);

/// How much slower a backend is than its pool.
struct Slowness {
  float ratio = 0;  ///< its median to that of the others; 0: it is not slow
  SlowPart part = SlowPart::per_token;
};

/// Text for people: "time per token 10x the pool's median".
std::string describe_slowness(Slowness slowness);

/// Thread: the control thread sets, any reads.
class BackendFindings {
 public:
  /// SlownessDetector decides.
  Slowness slowness() const { return slowness_.load(std::memory_order_relaxed); }
  void set_slowness(Slowness slowness) { slowness_.store(slowness, std::memory_order_relaxed); }
  /// The backend's picks of late, over an equal share of those of its pool; below 0: not known.
  float pick_share() const { return pick_share_.load(std::memory_order_relaxed); }
  void set_pick_share(float share) { pick_share_.store(share, std::memory_order_relaxed); }
  /// The weight that `weights: observed` has learned; 0: none yet.
  float learned_weight() const { return learned_weight_.load(std::memory_order_relaxed); }
  void set_learned_weight(float weight) {
    learned_weight_.store(weight, std::memory_order_relaxed);
  }
  /// The engine that `engine: auto` has detected, as the table of engines numbers it (number_of);
  /// 0: none that is known.
  std::uint8_t detected_engine() const { return detected_engine_.load(std::memory_order_relaxed); }
  void set_detected_engine(std::uint8_t number) {
    detected_engine_.store(number, std::memory_order_relaxed);
  }

 private:
  std::atomic<Slowness> slowness_{};
  std::atomic<float> pick_share_{-1};
  std::atomic<float> learned_weight_{0};
  std::atomic<std::uint8_t> detected_engine_{0};
};

}  // namespace evenkeel
