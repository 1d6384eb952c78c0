// What the load sends: prompts of a known length, and the chat completion around them.
#pragma once

#include <cstdint>
#include <string>

#include "evenkeel/load/load.h"
#include "evenkeel/load/trace.h"

namespace evenkeel {

/// One request of a load.
struct LoadRequest {
  std::uint64_t index = 0;
  std::uint32_t prompt_tokens = 0;
  std::uint32_t output_tokens = 0;
  const TraceRow* row = nullptr;  ///< where it comes from a trace
};

/// Makes requests out of their number: the same seed gives the same requests, whatever thread asks
/// and in whatever order.
class RequestGenerator {
 public:
  /// `options` outlives the book; so does `trace`, null where there is none.
  RequestGenerator(const LoadOptions& options, std::string_view model, const Trace* trace);

  LoadRequest load_request(std::uint64_t index) const;
  /// The JSON body of POST /v1/chat/completions.
  std::string body(const LoadRequest& load_request) const;
  /// The user's message: `prompt_tokens` words of 4 bytes. Unlike any other request's, but for a
  /// trace with block ids: the same id gives the same 512 tokens, so that prefix caches hit as
  /// they would have.
  std::string prompt(const LoadRequest& load_request) const;

 private:
  void append_prompt(const LoadRequest& load_request, std::string& out) const;

  const LoadOptions& options_;
  const Trace* trace_;
  std::string before_prompt_;
};

}  // namespace evenkeel
