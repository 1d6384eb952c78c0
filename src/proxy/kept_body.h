// The bodies of answers on their way into a cache, and out of it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "evenkeel/base/loop.h"
#include "evenkeel/http/message.h"
#include "evenkeel/inference/response_reader.h"
#include "evenkeel/pool/answer_cache.h"
#include "evenkeel/upstream/redis_answers.h"
#include "proxy/answer_key.h"

namespace evenkeel {

/// Passes an answer on, and keeps it when it has ended, and is whole.
class KeepingBody final : public Body {
 public:
  struct Options {
    AnswerKey key;
    std::string_view pool;
    Lifetime lifetime;
    std::uint64_t cache_age = 0;  ///< AnswerCache::age, when the request began
    std::string generation{};     ///< see RedisAnswers::find; empty: the answer is not shared
  };

  /// `shared`: where it is kept too; null: nowhere. `info` and the name of the pool outlive the
  /// body.
  KeepingBody(Loop& loop, std::shared_ptr<AnswerCache> cache, std::shared_ptr<RedisAnswers> shared,
              const Options& options, const RequestInfo& info, Response& response);

  Task<Result<Chunk>> read() override;
  std::optional<std::uint64_t> length() const override { return body_->length(); }
  Block take_block() override { return body_->take_block(); }

 private:
  Task<Result<Chunk>> wait(Task<Result<Chunk>> next);
  Result<Chunk> copy(Result<Chunk> chunk);
  bool is_whole() const;
  void end();

  Loop& loop_;
  std::shared_ptr<AnswerCache> cache_;  // null: the answer is too large
  const std::shared_ptr<RedisAnswers> shared_;
  const Options options_;
  const RequestInfo& info_;
  const std::optional<ResponseFormat> format_;
  BodyPtr body_;
  std::unique_ptr<KeptAnswer> answer_;
};

/// An answer that was kept. It begins now. The fields of the response are those of the answer.
Response response_of(KeptAnswerPtr answer, Instant now);

}  // namespace evenkeel
