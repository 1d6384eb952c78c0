// One request being answered by a simulated engine: what is generated, and how it goes out.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "evenkeel/base/loop.h"
#include "evenkeel/http/message.h"
#include "sim/engine_runner.h"
#include "sim/openai_response.h"

namespace evenkeel {

/// Told how answers end.
class CompletionObserver {
 public:
  virtual ~CompletionObserver() = default;
  /// It was generated to its last token.
  virtual void completed() = 0;
  /// It was dropped before that: its client has gone.
  /// `fd`: of its connection, which may be closed already.
  virtual void aborted(int fd) = 0;
};

/// What one choice is to be.
struct ChoiceSpec {
  std::uint32_t prompt_tokens = 1;
  std::uint32_t output_tokens = 1;
  std::uint32_t max_tokens = 0;
  bool stops_naturally = false;
  std::uint64_t word_seed = 0;
  std::vector<std::uint64_t> block_hashes;
  EventTemplate shape;  ///< empty when the answer is not streamed
};

/// The choices of one request. Dropping it takes what is unfinished out of the engine at once.
class Completion {
 public:
  Completion(Loop& loop, EngineRunner& runner, CompletionObserver& observer, int fd,
             std::vector<ChoiceSpec> plans, bool streams);
  Completion(const Completion&) = delete;
  ~Completion();

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
  CompletionObserver& observer_;
  int fd_;
  Signal progress_;
  std::string pending_;
  std::vector<std::unique_ptr<Choice>> choices_;
  std::size_t unfinished_;
};

/// What follows the last token of a stream.
struct StreamTrailer {
  bool usage = false;
  bool cached_tokens = false;  ///< in the usage
  bool send_done = true;
  std::uint32_t choices_per_prompt = 1;
  CompletionHead head;
};

/// An answer as server-sent events, each token as soon as it is there.
class SseBody final : public Body {
 public:
  SseBody(std::unique_ptr<Completion> answer, StreamTrailer end);
  Task<Result<Chunk>> read() override;

 private:
  Chunk take();
  Task<Result<Chunk>> wait_and_take();

  std::unique_ptr<Completion> answer_;
  std::string sending_;
  StreamTrailer end_;
};

}  // namespace evenkeel
