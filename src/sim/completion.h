// The generation of one response, and its delivery as a body.
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

/// Learns how completions end.
class CompletionObserver {
 public:
  virtual ~CompletionObserver() = default;
  /// The last token was generated.
  virtual void completed() = 0;
  /// The completion was destroyed before: its client has left. `client_fd` may be closed already.
  virtual void aborted(int client_fd) = 0;
};

/// One choice to generate.
struct ChoiceSpec {
  std::uint32_t adapter = 0;
  std::uint32_t prompt_tokens = 1;
  std::uint32_t output_tokens = 1;
  std::uint32_t max_tokens = 0;
  bool stops_naturally = false;
  std::uint64_t word_seed = 0;
  std::vector<std::uint64_t> block_hashes;
  EventTemplate shape;  ///< empty where the response is not streamed
};

/// The choices of one request. Destroying it removes unfinished ones from the engine at once.
class Completion {
 public:
  Completion(Loop& loop, EngineRunner& runner, CompletionObserver& observer, int client_fd,
             std::vector<ChoiceSpec> plans, bool streams);
  Completion(const Completion&) = delete;
  ~Completion();

  /// Raised with each token of a stream, else with the last token.
  Signal& progress() { return progress_; }
  bool finished() const { return unfinished_ == 0; }
  /// Events that have not been sent yet.
  std::string& pending() { return pending_; }

  std::vector<ChoiceText> texts() const;
  /// The usage of all choices; each distinct prompt counts once.
  Usage usage(bool with_cached, std::uint32_t choices_per_prompt) const;

 private:
  class Choice;

  EngineRunner& runner_;
  CompletionObserver& observer_;
  int client_fd_;
  Signal progress_;
  std::string pending_;
  std::vector<std::unique_ptr<Choice>> choices_;
  std::size_t unfinished_;
};

/// The events after the last token of a stream.
struct StreamTrailer {
  bool usage = false;
  bool cached_tokens = false;  ///< in the usage
  bool send_done = true;
  std::uint32_t choices_per_prompt = 1;
  CompletionHead head;
};

/// A completion as server-sent events; each token is sent as soon as it is generated.
class SseBody final : public Body {
 public:
  SseBody(std::unique_ptr<Completion> completion, StreamTrailer end);
  Task<Result<Chunk>> read() override;

 private:
  Chunk take();
  Task<Result<Chunk>> wait_and_take();

  std::unique_ptr<Completion> completion_;
  std::string sending_;
  StreamTrailer end_;
};

}  // namespace evenkeel
