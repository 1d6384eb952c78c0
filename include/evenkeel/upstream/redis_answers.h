// Answers in Redis, which several replicas of the daemon give to their clients.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "evenkeel/pool/answer_cache.h"
#include "evenkeel/upstream/redis_client.h"

namespace evenkeel {

/// An answer as bytes that mean the same on another machine whose clock shows the same time. `now`:
/// of both clocks.
std::string answer_to_bytes(const KeptAnswer& answer, Instant now,
                            std::chrono::system_clock::time_point time);
/// The answer; null: the bytes are none, or it may no longer be used.
std::shared_ptr<KeptAnswer> parse_answer(std::string_view bytes, Instant now,
                                         std::chrono::system_clock::time_point time);

/// Keeps answers of pools beside the memory of each replica, until they may not even be used in
/// place of an error. Clients cannot know their keys: the seeds of the hashes come from the
/// server's password.
///
/// Thread: the loop's. Outlives its tasks.
class RedisAnswers {
 public:
  /// The longest answer that is kept there, as bytes.
  static constexpr std::size_t max_bytes = 1024UL * 1024;

  /// `logs`: false for all workers but one.
  RedisAnswers(Loop& loop, RedisOptions options, bool logs);

  const RedisOptions& options() const { return client_.options(); }
  const AnswerCache::Seeds& seeds() const { return seeds_; }

  struct Found {
    KeptAnswerPtr answer;    ///< fresh or stale; null: there is none
    std::string generation;  ///< how often the pool's were dropped; empty: no reply in time
  };
  Task<Found> find(std::string_view pool, AnswerKey key);
  /// Keeps it, without waiting for that, unless the pool's were dropped since that generation.
  void keep(std::string_view pool, const AnswerKey& key, const KeptAnswer& answer,
            std::string generation);
  /// Drops those of a pool, for all replicas. False if the server has not said that it has.
  Task<bool> clear(std::string pool);

 private:
  Loop& loop_;
  const AnswerCache::Seeds seeds_;
  RedisClient client_;
};

/// Drops the answers of these pools, over a connection of its own. False if the server has not said
/// so within seconds. Thread: the loop's.
Task<bool> clear_shared_answers(Loop& loop, RedisOptions options, std::vector<std::string> pools);

}  // namespace evenkeel
