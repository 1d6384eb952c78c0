// The requests of a load: prompts of a known length in chat completions.
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
  const TraceRow* row = nullptr;  ///< of the trace; null: no trace
};

/// Makes a request from its index: the same seed gives the same requests, on any thread and in any
/// order.
class RequestGenerator {
 public:
  /// `options` and `trace` (null: none) outlive the generator.
  RequestGenerator(const LoadOptions& options, std::string_view model, const Trace* trace);

  LoadRequest load_request(std::uint64_t index) const;
  /// The JSON body of POST /v1/chat/completions.
  std::string body(const LoadRequest& load_request) const;
  /// The user's message: `prompt_tokens` words of 4 bytes, unlike any other request's. In a trace
  /// with block ids, equal ids give equal blocks of 512 tokens, so that prefix caches hit as they
  /// did when the trace was recorded.
  std::string prompt(const LoadRequest& load_request) const;

 private:
  void append_prompt(const LoadRequest& load_request, std::string& out) const;

  const LoadOptions& options_;
  const Trace* trace_;
  std::string before_prompt_;
};

}  // namespace evenkeel
