// One request being answered by a simulated engine: what is generated, and how it goes out.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "evenkeel/base/loop.h"
#include "evenkeel/http/message.h"
#include "sim/engine_runner.h"
#include "sim/openai.h"

namespace evenkeel {

/// Told how answers end.
class AnswerObserver {
 public:
  virtual ~AnswerObserver() = default;
  /// It was generated to its last token.
  virtual void completed() = 0;
  /// It was dropped before that: its client has gone.
  /// `fd`: of its connection, which may be closed already.
  virtual void aborted(int fd) = 0;
};

/// What one choice is to be.
struct ChoicePlan {
  std::uint32_t prompt_tokens = 1;
  std::uint32_t output_tokens = 1;
  std::uint32_t max_tokens = 0;
  bool ends_by_itself = false;
  std::uint64_t word_seed = 0;
  std::vector<std::uint64_t> block_hashes;
  EventShape shape;  ///< empty when the answer is not streamed
};

/// The choices of one request. Dropping it takes what is unfinished out of the engine at once.
class Answer {
 public:
  Answer(Loop& loop, EngineRunner& runner, AnswerObserver& observer, int fd,
         std::vector<ChoicePlan> plans, bool streams);
  Answer(const Answer&) = delete;
  ~Answer();

  /// Raised when tokens have come: each one for a stream, else the last.
  Signal& progress() { return progress_; }
  bool finished() const { return unfinished_ == 0; }
  /// Events that nobody has taken yet.
  std::string& pending() { return pending_; }

  std::vector<ChoiceText> texts() const;
  /// Of all choices; the prompt of each distinct prompt counts once.
  Usage usage(bool with_cached, std::uint32_t choices_per_prompt) const;

 private:
  class Choice;

  EngineRunner& runner_;
  AnswerObserver& observer_;
  int fd_;
  Signal progress_;
  std::string pending_;
  std::vector<std::unique_ptr<Choice>> choices_;
  std::size_t unfinished_;
};

/// What follows the last token of a stream.
struct StreamEnd {
  bool usage = false;
  bool cached_tokens = false;  ///< in the usage
  bool done_mark = true;
  std::uint32_t choices_per_prompt = 1;
  AnswerHead head;
};

/// An answer as server-sent events, each token as soon as it is there.
class StreamBody final : public Body {
 public:
  StreamBody(std::unique_ptr<Answer> answer, StreamEnd end);
  Task<Result<Chunk>> read() override;

 private:
  Chunk take();
  Task<Result<Chunk>> wait_and_take();

  std::unique_ptr<Answer> answer_;
  std::string sending_;
  StreamEnd end_;
};

}  // namespace evenkeel
