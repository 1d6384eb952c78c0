// The memory that the bodies of requests take up on one worker, and which of them give way when it
// runs short.
#pragma once

#include <cstdint>
#include <unordered_map>

#include "evenkeel/base/loop.h"
#include "evenkeel/base/overload.h"
#include "evenkeel/base/result.h"
#include "evenkeel/base/task.h"
#include "evenkeel/http/message.h"
#include "evenkeel/stats/worker_metrics.h"

namespace evenkeel {

class HeldBody;
class WaitForRoom;

/// Refuses a request that depends on more of its body than there was memory for.
Error no_room_for_bodies();

/// What one worker holds of request bodies, by client. Where a body needs more than is left to
/// learn where its request goes, others give way: copies that are kept for retries are dropped
/// first, then the body that has not grown for the longest time ends (408), at once if its client
/// takes more than the one that needs room, after a while in any case. Until then the upload waits.
/// What becomes free meanwhile is for the first in line: of the client that holds least besides it.
/// Other clients go before it only as long as each has little in all.
///
/// Thread: the worker's.
class HeldBodies {
 public:
  /// `pressure` null: there is never any.
  HeldBodies(Loop& loop, ReplayMetrics& metrics, const MemoryPressureLevel* pressure)
      : loop_(loop), metrics_(metrics), pressure_(pressure) {}
  HeldBodies(const HeldBodies&) = delete;
  HeldBodies& operator=(const HeldBodies&) = delete;

  Loop& loop() { return loop_; }
  ReplayMetrics& metrics() { return metrics_; }
  bool memory_is_scarce() const {
    return pressure_ != nullptr && pressure_->get() != MemoryPressure::none;
  }
  /// Bytes that are held or promised.
  std::uint64_t taken() const { return taken_; }

 private:
  friend class HeldBody;
  friend class WaitForRoom;
  /// What one client takes.
  struct Client {
    std::uint64_t bytes = 0;
    std::uint32_t bodies = 0;
  };

  std::uint64_t missing(std::uint64_t bytes, std::uint64_t limit) const;
  bool has_room(std::uint64_t bytes, std::uint64_t limit) const;
  bool memory_is_short(std::uint64_t bytes) const;
  const WaitForRoom& find_first_in_line();
  const WaitForRoom& first_in_line();
  WaitForRoom* last_in_line(const HeldBody& first) const;
  bool must_wait(const HeldBody& body, std::uint64_t bytes);
  void make_room(const HeldBody& needy, std::uint64_t bytes, Duration waited);
  bool may_end(const HeldBody& body, const HeldBody& needy, std::uint64_t bytes,
               Duration waited) const;
  void count_memory(std::int64_t bytes);
  void freed();

  Loop& loop_;
  ReplayMetrics& metrics_;
  const MemoryPressureLevel* pressure_;
  Node bodies_;   // HeldBody::Place; the one that has not grown for the longest time first
  Node waiting_;  // WaitForRoom, in the order of arrival
  WaitForRoom* first_ = nullptr;  // of these, as of `first_found_`; null: not known
  Instant first_found_{};
  std::unordered_map<std::uint64_t, Client> clients_;  // of `bodies_`
  std::uint64_t taken_ = 0;
  std::uint64_t leaving_ = 0;   // of bodies that have been ended
  std::int64_t uncounted_ = 0;  // bytes that `pressure_` has not been told of
  std::uint32_t body_count_ = 0;
  std::uint32_t waiting_count_ = 0;
};

/// What one body takes of HeldBodies. What it has claimed stays free for it until it needs that.
class HeldBody {
 public:
  /// Larger bodies share half of what a worker may hold: a few that arrive slowly leave room for
  /// the many that are small.
  static constexpr std::uint64_t max_small_body = 64UL * 1024;

  HeldBody(const HeldBody&) = delete;
  HeldBody& operator=(const HeldBody&) = delete;

 protected:
  /// What the body does, and what can be taken from it.
  enum class Stage : std::uint8_t {
    passes,   ///< on to a backend: a copy of what was sent may be dropped
    arrives,  ///< it waits for its client: it can be ended
    waits,    ///< for room: it can be ended
  };

  /// `limit`: of all bodies of the worker. `identity` outlives the body.
  HeldBody(HeldBodies& all, const RequestIdentity& identity, std::uint64_t limit)
      : all_(all), identity_(identity), limit_(limit), room_(all.loop()) {}
  ~HeldBody();

  HeldBodies& all() const { return all_; }
  std::uint64_t held() const { return held_; }
  std::uint64_t large_limit() const { return limit_ / 2; }
  /// Bytes that `small` bodies, or large ones, may take.
  std::uint64_t limit_of(bool small) const { return small ? limit_ : large_limit(); }
  /// Counts memory that is taken now; false: there is no room.
  bool take(std::uint64_t bytes, bool small);
  void give(std::uint64_t bytes);
  /// Promises that there is room for so many bytes in all; false: there is not.
  bool claim(std::uint64_t bytes);
  bool has_claim() const { return claimed_ > held_; }
  /// Needs no more than it holds.
  void end_claim();
  /// Waits until they can be claimed. Errors: body_too_large for more than may ever be held;
  /// out_of_memory after a while, or when it had to give way to others.
  Task<Result<Done>> wait_to_claim(std::uint64_t bytes);
  void set_stage(Stage stage) { stage_ = stage; }
  bool has_ended() const { return ended_; }
  /// The error of a body that was ended.
  static Error gave_way();

 private:
  friend class HeldBodies;
  friend class WaitForRoom;
  struct Place : Node {
    explicit Place(HeldBody& own_body) : body(own_body) {}
    HeldBody& body;
  };

  /// Frees what is kept for a retry only. Only in the stage `passes`.
  virtual void drop_copy() = 0;
  /// Ends the wait for the client. Only in the stage `arrives`.
  virtual void end_arrival() = 0;

  void end();
  void enter();
  void add(std::uint64_t bytes);
  void remove(std::uint64_t bytes);
  void grew();

  HeldBodies& all_;
  const RequestIdentity& identity_;
  const std::uint64_t limit_;
  std::uint64_t held_ = 0;
  std::uint64_t claimed_ = 0;             // at least `held_`
  HeldBodies::Client* client_ = nullptr;  // null: it holds too little to be in `bodies_`
  std::uint64_t client_key_ = 0;
  Place place_{*this};
  Instant grew_{};
  Stage stage_ = Stage::passes;
  bool ended_ = false;
  Signal room_;
};

}  // namespace evenkeel
